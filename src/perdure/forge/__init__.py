"""Forge: the conversation that turns a wish into a bot. Questions, drafts, choices and assembly.

May import: bots, memory, minds, tools, kernel, settings, failpoints, errors.
"""
