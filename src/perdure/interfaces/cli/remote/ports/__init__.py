"""Ports of the commands to a home or a server.

Each port has two implementations: an object of `perdure.app`, and one over `perdure.client` in the folder above.
Arguments and results are types of the wire, or views that print the same in both cases. May import: app.
"""
