"""The SQLite side of the store: files, the lock around writes, connections, and the adapter over them."""
