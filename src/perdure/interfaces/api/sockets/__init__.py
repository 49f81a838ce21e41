"""The sockets: one loop each, and nothing that piles up for whoever does not read."""
