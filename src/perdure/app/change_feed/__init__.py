"""The change feed of a home: which goals have changed, in this process or another; imports the kernel."""
