"""The histories and leases of goals: in memory, in SQLite and in PostgreSQL.

May import: as the rest of the store; implements the ports of the kernel.
"""
