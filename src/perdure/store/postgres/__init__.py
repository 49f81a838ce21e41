"""The adapter for PostgreSQL: connections, errors, and the tools for dumps and restores."""
