"""The commands at a server.

`ports` say what they need of a home or a server, `opened` decides which of the two it is, and `connection` leads to the
server; the other modules are the server's side of each port. What imports the client is imported only with `--url`,
because start-up time is a feature.
"""
