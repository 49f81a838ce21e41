"""Differences between databases in migrations."""

from typing import TypeVar

from alembic import op

T = TypeVar("T")


def by_dialect(*, sqlite: T, postgresql: T) -> T:
    """Return the value for the kind of database that is being migrated."""
    return {"sqlite": sqlite, "postgresql": postgresql}[op.get_context().dialect.name]
