"""Forge: the conversation that turns a wish into a bot. So far this holds the vocabulary that the database enforces.

May import: bots, memory, minds, tools, kernel, settings, failpoints, errors.
"""
