"""The durable runtime: events, their fold, and the ports through which it reaches the world.

May import: failpoints, errors. It uses no database, file, process, network, clock or random source directly, only
through ports.
"""
