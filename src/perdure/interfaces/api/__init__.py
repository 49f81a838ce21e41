"""REST and WebSocket: the use cases of `perdure.app` over HTTP, behind one middleware.

`auth` authenticates requests; `problems` and `envelope` are the one form of every response; `routes` and `sockets` turn
requests into use cases; `app` puts them together and `server` runs it. May import: app and everything below it.
"""
