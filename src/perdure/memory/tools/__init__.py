"""The memory for bots: the tools `recall` and `remember`, pinned records, related records at the start of a goal."""
