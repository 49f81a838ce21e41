"""Backups as one archive file, and restores that leave either the old or the new state after a kill."""
