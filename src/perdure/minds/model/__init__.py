"""The mind of a bot: a language model decides the next step of a goal.

May import: as `minds`. Clients of providers implement `ports.ModelClient`.
"""
