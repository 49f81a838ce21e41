"""The derived index of a log: its database, its file, and the terms that records are found by."""
