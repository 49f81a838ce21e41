"""The sockets: one loop each, with a bounded queue for clients that do not read."""
