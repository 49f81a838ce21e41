"""Durable files: opening, flushing, and replacing files so that a crash leaves the old content or the new one.

It imports `errors`, `failpoints` and `filelock`. What the operating system refuses is an `OSError` here; a caller
knows what the file is for, and says so.
"""
