"""Resources as every surface shows them: one JSON form for REST, sockets, the command line and the client."""
