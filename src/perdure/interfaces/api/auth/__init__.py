"""Authentication: the token, sessions and hosts of a server, and the middleware that checks every request."""
