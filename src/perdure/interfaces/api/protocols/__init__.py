"""The two protocols of uvicorn with limits: how long, how much and how often a client may keep the server busy.

Modules here may import `gate`, `envelope`, `problems` and `lines`; nothing but `server` imports them.
"""
