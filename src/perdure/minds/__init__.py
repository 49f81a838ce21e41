"""Minds: what decides which step comes next. A command is one step, a plan is a file of steps that need each other.

May import: kernel, settings, failpoints, errors. A mind looks at the state of a goal and returns what it wants; it
starts nothing, waits for nothing and keeps nothing between two decisions.
"""
