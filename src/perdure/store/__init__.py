"""The database: one schema and one chain of migrations for SQLite and PostgreSQL, and the client of both.

May import: the `ports` modules of features, settings, failpoints, errors. All SQL lives here.
"""
