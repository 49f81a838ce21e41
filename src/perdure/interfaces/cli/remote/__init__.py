"""Commands that work with a server (`--url`) or a home.

`ports` declare what commands need, `opened` selects the home or the server, and `connection` connects to the server.
The other modules implement the ports over the client; they are imported only with `--url`, to keep the start-up fast.
"""
