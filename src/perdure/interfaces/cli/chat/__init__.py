"""`perdure chat`: conversations in a terminal. `chat` is the command; `conversation` runs one, `display` shows it.

May import what `cli` may.
"""
