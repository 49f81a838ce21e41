"""Lock files: the one implementation of `flock`. May import: errors.

A lock ends with the process that took it: a forked child inherits none. A terminal stop can wait until none is held.
"""
