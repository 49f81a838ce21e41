"""The adapter for SQLite: files, the lock around writes, and connections."""
