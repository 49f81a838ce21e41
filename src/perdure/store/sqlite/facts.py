"""The health of a SQLite database, and the verification of its content."""

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.store.database import Health
from perdure.store.migrations import CHAIN
from perdure.store.sqlite import faults
from perdure.store.sqlite.connection import pragma

if TYPE_CHECKING:
    import sqlalchemy as sa

_SYNCHRONOUS = {0: "off", 1: "normal", 2: "full", 3: "extra"}


@dataclass(frozen=True)
class SqliteVersion:
    """The version of SQLite in this Python."""

    text: str
    oldest: str
    is_usable: bool
    is_affected: bool


def sqlite_version() -> SqliteVersion:
    """Return the version of SQLite in this Python, and whether it is usable."""
    return SqliteVersion(
        text=sqlite3.sqlite_version,
        oldest=".".join(map(str, faults.OLDEST)),
        is_usable=sqlite3.sqlite_version_info >= faults.OLDEST,
        is_affected=sqlite3.sqlite_version_info < faults.AFFECTED_BEFORE,
    )


def health_of(connection: sqlite3.Connection, location: str) -> Health:
    """Return the health of the database of a connection."""
    return Health(
        database="sqlite",
        location=location,
        version=int(pragma(connection, "user_version")),
        facts={
            "journal_mode": pragma(connection, "journal_mode"),
            "synchronous": _SYNCHRONOUS[int(pragma(connection, "synchronous"))],
            "foreign_keys": bool(pragma(connection, "foreign_keys")),
            "sqlite_version": sqlite3.sqlite_version,
            "sqlite_affected": sqlite_version().is_affected,
            "size_bytes": int(pragma(connection, "page_count")) * int(pragma(connection, "page_size")),
        },
    )


def problems_of(core: "sa.Connection") -> list[str]:
    """Read the whole database and return a sentence for each problem."""
    from perdure.store.schema.verify import schema_problems

    found = [str(row[0]) for row in core.exec_driver_sql("PRAGMA integrity_check") if row[0] != "ok"]
    for table, row_id, parent, _ in core.exec_driver_sql("PRAGMA foreign_key_check"):
        found.append(f"row {row_id} of {table} points at a row of {parent} that is not there")
    version = core.exec_driver_sql("PRAGMA user_version").scalar_one()
    if version < CHAIN.head:
        return found  # an older schema is not damage
    noted = core.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    if noted != f"{version:04d}":
        found.append(
            f"`user_version` is {version:04d}, but the table `alembic_version` has {noted}; restore a backup"
            " (`perdure db restore`)"
        )
    return found + schema_problems(core)
