"""Bots: what one is on disk, and how its files are read, written, merged, explained and packed.

Nothing here knows of a database or of an interview; versions come in as texts. May import: kernel, settings,
failpoints, errors.
"""

LOCK_FILE = ".lock"
"""What is locked, in the folder of all bots, by those who write there or to the folder of the skills."""
