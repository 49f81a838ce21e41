"""Replace our tables in a PostgreSQL database by those of a dump; the old ones stay, in a schema of their own."""

from dataclasses import dataclass
from pathlib import Path

from perdure import failpoints
from perdure.errors import Conflict
from perdure.store.durable import fsync
from perdure.store.postgres import faults, tools
from perdure.store.postgres.connection import connect
from perdure.store.target import PostgresTarget


@dataclass(frozen=True)
class SchemaSwap:
    """A dump that is ready, and the schema that our tables go to, unless there are none."""

    dump: str
    aside: str | None


def plan_swap(target: PostgresTarget, dump: Path, aside: str) -> SchemaSwap:
    """Say what has to be done to have the tables of a dump instead of those that are there.

    Raises: Unavailable when `pg_restore` is missing, or the server does not answer.
    """
    tools.require("pg_restore")
    return SchemaSwap(str(dump), aside if has_tables(target) else None)


def has_tables(target: PostgresTarget) -> bool:
    """Tell whether the current schema holds any table of ours."""
    with faults.translated(target.shown), connect(target.url, autocommit=True) as connection:
        return bool(tools.ours_in(connection))


def refuse_when_in_use(target: PostgresTarget) -> None:
    """See that no other process of ours is connected.

    Raises: Conflict
    """
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name = 'perdure' AND pid <> pg_backend_pid()"
    )
    with faults.translated(target.shown), connect(target.url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    if row and row[0]:
        raise Conflict(f"{target.shown} is in use. Stop the programs that use it, then restore again.")


def swap_schema(target: PostgresTarget, swap: SchemaSwap) -> None:
    """Move our tables aside and load the dump; do what of it was not done before.

    Raises: Unavailable when `pg_restore` is missing or fails.
    """
    dump = Path(swap.dump)
    if not dump.exists():
        return
    failpoints.hit("store.restore.swap.before")
    if swap.aside and not _is_aside(target, swap.aside):
        _move_aside(target, swap.aside)
    failpoints.hit("store.restore.swap.between")
    if not has_tables(target):
        tools.restore(target, dump)
    dump.unlink()
    fsync(dump.parent)
    failpoints.hit("store.restore.swap.after")


def _is_aside(target: PostgresTarget, aside: str) -> bool:
    with faults.translated(target.shown), connect(target.url, autocommit=True) as connection:
        return connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", [aside]).fetchone() is not None


def _move_aside(target: PostgresTarget, aside: str) -> None:
    """Move our tables and views, and nothing else, into a new schema; their indexes and sequences go with them."""
    from psycopg.sql import SQL, Identifier

    with faults.translated(target.shown), connect(target.url) as connection:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(aside)))
        for name in tools.ours_in(connection):
            move = SQL("ALTER TABLE {} SET SCHEMA {}")  # PostgreSQL takes this for a view too
            connection.execute(move.format(Identifier(name), Identifier(aside)))
