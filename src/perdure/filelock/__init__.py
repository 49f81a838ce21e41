"""Lock files: one implementation of `flock` for all that processes share. It imports `errors` and nothing else of ours.

A lock ends with the process that took it: a forked child inherits none. A terminal stop can wait until none is held.
"""
