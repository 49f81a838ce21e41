"""One request to one model, by pydantic-ai: connections, messages, streams, and what went wrong.

May import what `minds` may, and the packages of the extras. Nothing but `client.py` beside it imports this folder, and
only at the first request, because pydantic-ai takes longer to import than most commands take.
"""
