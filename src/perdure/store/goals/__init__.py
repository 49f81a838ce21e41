"""The histories of goals and who may write them: in memory, in SQLite and in PostgreSQL.

May import: what the rest of the store may; the ports are those of the kernel.
"""
