"""The HTTP and WebSocket protocols of uvicorn, with limits on the time, data and frequency of client requests.

Modules here may import `auth`, `envelope`, `problems` and `connections`; only `server` imports them.
"""
