"""Programs that do the same work, each its own way: the floor, ours and the others, each a process of its own.

The others run in environments where nothing of ours is installed. May import: the program, the step and what it is of.
"""
