"""Reads of a memory: related history, search, lists, and the Markdown section of a pull request."""
