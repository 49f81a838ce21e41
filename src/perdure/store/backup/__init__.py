"""Backups: one archive file, and putting it into place so that a kill leaves the old state or the new one."""
