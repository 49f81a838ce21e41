"""Minds: what decides which step comes next. A command is one step, a plan is a file of steps that need each other.

May import: kernel, settings, failpoints, errors. A mind looks at the state of a goal and returns what it wants; it
starts nothing and waits for nothing. What it remembers between two decisions only saves time: a new mind would say the
same.
"""
