"""The PostgreSQL side of the store: connections, errors, the tools that dump and restore, and the adapter."""
