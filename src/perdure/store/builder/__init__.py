"""Drafts, choices and bots in the database: one implementation for SQLite and PostgreSQL.

May import: perdure.forge.ports, the store's client and tables.
"""
