"""The durable runtime: events, their fold, and the ports through which it reaches the world.

May import: failpoints, errors. It knows no database, file, process, network, clock or random source: what it needs of
them it asks of a port.
"""
