"""REST and WebSocket: the use cases of `perdure.app` over HTTP, behind one middleware.

`auth` authenticates requests; `envelope` and `problems` define the form of every response; `routes` and `sockets` call
the use cases; `app` assembles the application and `server` runs it. May import: app and leaf modules.
"""
