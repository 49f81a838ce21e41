"""The tool `exec`: a program, the processes that it starts, and how they end."""
