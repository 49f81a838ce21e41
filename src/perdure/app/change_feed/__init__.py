"""The change feed of a home: which goals have changed, whoever wrote them, for every surface; imports the kernel."""
