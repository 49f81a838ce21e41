"""The one place where a migration asks which database it is running on."""

from typing import TypeVar

from alembic import op

T = TypeVar("T")


def by_dialect(*, sqlite: T, postgresql: T) -> T:
    """Return what belongs to the database that is being migrated."""
    return {"sqlite": sqlite, "postgresql": postgresql}[op.get_context().dialect.name]
