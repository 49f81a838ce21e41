"""The log of records: lines, appends under a lock, rewriting, the archive, repair. May import nothing of the index."""
