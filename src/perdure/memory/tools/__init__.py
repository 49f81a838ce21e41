"""The memory as a bot uses it: the tools `recall` and `remember`, pinned records, and what a goal begins with."""
