"""The mind of a bot: a language model decides the next step of a goal.

May import what `minds` may. What speaks to the providers of models implements `ports.ModelClient`.
"""
