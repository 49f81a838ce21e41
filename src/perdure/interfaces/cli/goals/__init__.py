"""The commands for goals: run, show, decide, cancel, retry, fork. May import app and leaf modules."""
