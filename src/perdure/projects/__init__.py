"""Projects: from requirements to merged work. So far this holds the vocabulary that the database enforces.

May import: bots, memory, minds, tools, kernel, settings, failpoints, errors.
"""
