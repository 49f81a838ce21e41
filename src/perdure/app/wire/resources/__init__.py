"""The definition of every resource that leaves the process, shared by REST, sockets, `--json` and the client.

`goals`, `events`, `builder`, `bots`, `memory`, `server` and `problems` have one TypedDict for each resource.
`vocabulary` has the words that they share and what describes a value to OpenAPI; `unions` has the unions, which only
OpenAPI needs. The views of `app` return these types, the client returns them, and the OpenAPI document is derived from
them. Code that only annotates with them imports them for type checkers alone, so that they cost a command nothing.
"""
