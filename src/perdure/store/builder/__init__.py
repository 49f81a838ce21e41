"""Drafts, choices and bots in the database: one implementation for SQLite and PostgreSQL.

May import: perdure.forge.ports, and the client and tables of the store.
"""
