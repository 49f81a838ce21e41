"""Bots on disk: reads, writes, merges, explains and packs their files.

It does not use the database or interviews: versions are passed as texts. May import: kernel, settings, failpoints,
errors.
"""

LOCK_FILE = ".lock"
"""Lock file in the folder of all bots; writers of bots and of skills hold it."""
