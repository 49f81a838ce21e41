"""Durable files: opening, flushing, and replacing files so that a crash leaves the old content or the new one.

It imports `errors`, `failpoints` and `filelock`. Errors of the operating system stay `OSError`; a caller, which knows
the purpose of the file, translates them.
"""
