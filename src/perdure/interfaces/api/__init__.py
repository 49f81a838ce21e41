"""REST and WebSocket: the use cases of `perdure.app` over HTTP, behind one gate.

`doors` and `gate` decide who may come in, `edge` what may be brought; `problems` and `envelope` are the one form of
every answer; `routes` and `sockets` turn requests into use cases; `app` puts them together and `server` runs it. May
import: app and everything below it.
"""
