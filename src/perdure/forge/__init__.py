"""Forge, the bot builder: interview, drafts, past choices, and assembly of the files of a bot.

May import: bots, memory, minds, tools, kernel, settings, failpoints, errors.
"""
