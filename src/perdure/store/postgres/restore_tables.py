"""Replaces the tables of Perdure in PostgreSQL by those of a dump; the old ones are kept in another schema."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure import failpoints
from perdure.errors import Conflict, Damaged
from perdure.files.fsync import fsync_folder
from perdure.store.postgres import faults, tools
from perdure.store.postgres.connection import MIGRATION_LOCK, OURS, connect
from perdure.store.target import PostgresTarget

if TYPE_CHECKING:
    import psycopg

_CLOSING_S = 1.0
"""How long the server may still list closed connections."""


def refuse_a_dump(target: PostgresTarget, dump: Path) -> None:
    """Check that a dump can replace the tables of Perdure, before any table is moved.

    Raises: Damaged or Invalid for the dump; Conflict when the database is in use; Denied when tables may not be moved;
    Unavailable when `pg_restore` is missing, too old, or the server does not answer.
    """
    tools.examine(target, dump)
    with faults.translated(target.shown), connect(target.url) as connection:
        _refuse_when_in_use(target, connection)
        _move_aside(connection, "perdure_trial")
        connection.rollback()


def _refuse_when_in_use(target: PostgresTarget, connection: "psycopg.Connection[Any]") -> None:
    """Check that no other process of Perdure uses the database; the server lists closed connections for a moment.

    Raises: Conflict
    """
    deadline_s = time.monotonic() + _CLOSING_S
    query = f"SELECT count(*) FROM pg_stat_activity WHERE {OURS} AND pid <> pg_backend_pid()".encode()  # noqa: S608
    while (others := connection.execute(query).fetchone()) and others[0]:
        if time.monotonic() > deadline_s:
            raise Conflict(f"{target.shown} is in use. Stop the programs that use it, then restore again.")
        connection.execute("SELECT pg_stat_clear_snapshot(), pg_sleep(0.05)")


def has_tables(target: PostgresTarget) -> bool:
    """Return whether the current schema contains tables of Perdure."""
    with faults.translated(target.shown), connect(target.url, autocommit=True) as connection:
        return bool(tools.ours_in(connection))


def swap_tables(target: PostgresTarget, dump: Path, mark: str) -> str | None:
    """Move the tables of Perdure aside, load the dump, delete it, and return the schema of the old tables.

    Repeated after a kill, it moves all existing tables aside again, and loads the dump. It does not try to find out
    whether the dump was loaded. Migrations are blocked meanwhile.
    """
    if not dump.exists():
        return None
    failpoints.hit("store.restore.swap.before")
    with _no_migration(target):
        aside = _aside(target, mark)
        failpoints.hit("store.restore.swap.between")
        tools.restore(target, dump)
        if not has_tables(target):
            raise Damaged(
                f"pg_restore restored none of Perdure's tables into {target.shown}. The former tables are in {aside}."
            )
    dump.unlink()
    fsync_folder(dump.parent)
    failpoints.hit("store.restore.swap.after")
    return aside


def _aside(target: PostgresTarget, mark: str) -> str | None:
    with faults.translated(target.shown), connect(target.url) as connection:
        if not tools.ours_in(connection):
            return None
        rows = connection.execute("SELECT nspname FROM pg_namespace").fetchall()
        taken = {row[0] for row in rows}
        names = (f"replaced_{mark}{'' if number == 1 else f'_{number}'}" for number in range(1, len(taken) + 2))
        name = next(name for name in names if name not in taken)
        _move_aside(connection, name)
        return name


def _move_aside(connection: "psycopg.Connection[Any]", schema: str) -> None:
    """Move only the tables, views and trigger functions of Perdure, with their indexes, to a new schema."""
    from psycopg.sql import SQL, Identifier

    connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
    functions = connection.execute(
        "SELECT DISTINCT p.proname FROM pg_trigger t"
        " JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_class c ON c.oid = t.tgrelid"
        " WHERE NOT t.tgisinternal AND c.relname = ANY(%s)"
        " AND c.relnamespace = current_schema()::regnamespace AND p.pronamespace = current_schema()::regnamespace",
        [tools.ours_in(connection)],
    ).fetchall()
    for (name,) in functions:
        connection.execute(SQL("ALTER FUNCTION {}() SET SCHEMA {}").format(Identifier(name), Identifier(schema)))
    for name in tools.ours_in(connection):
        move = SQL("ALTER TABLE {} SET SCHEMA {}")  # PostgreSQL takes this for a view too
        connection.execute(move.format(Identifier(name), Identifier(schema)))


@contextmanager
def _no_migration(target: PostgresTarget) -> Iterator[None]:
    with faults.translated(target.shown), connect(target.url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
        yield  # closing the connection releases the lock
