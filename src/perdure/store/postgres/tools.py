"""`pg_dump` and `pg_restore`, run with the password kept out of the command line."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.errors import Unavailable
from perdure.store.postgres import faults
from perdure.store.postgres.connection import connect, parse_url
from perdure.store.target import PostgresTarget

if TYPE_CHECKING:
    import psycopg


def dump(target: PostgresTarget, path: Path) -> None:
    """Write our tables with all their rows, as of one moment, into a file of pg_dump's custom format.

    Raises: Unavailable when pg_dump is missing or fails.
    """
    with faults.translated(target.shown), connect(target.url, autocommit=True) as connection:
        foreign = connection.execute(
            "SELECT quote_ident(relname) FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
            " AND relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT relname = ANY(%s)",
            [_names()],
        ).fetchall()
    options = ["--format=custom", "--no-owner", "--no-privileges", f"--schema={current_schema(target)}"]
    _run("pg_dump", target, [*options, *[f"--exclude-table={row[0]}" for row in foreign], f"--file={path}"])


def restore(target: PostgresTarget, path: Path) -> None:
    """Load such a file into an empty database, in one transaction.

    Raises: Unavailable when pg_restore is missing or fails; the database is then as it was.
    """
    options = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
    _run("pg_restore", target, [*options, f"--schema={current_schema(target)}", str(path)])


def current_schema(target: PostgresTarget) -> str:
    """The schema that our tables are in."""
    with faults.translated(target.shown), connect(target.url, autocommit=True) as connection:
        row = connection.execute("SELECT current_schema()").fetchone()
    return str(row[0]) if row and row[0] else "public"


def ours_in(connection: "psycopg.Connection[Any]") -> list[str]:
    """Return the names of our tables and views in the current schema."""
    rows = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(%s)"
        " ORDER BY relkind DESC, relname",
        [_names()],
    )
    return [row[0] for row in rows]


def _names() -> list[str]:
    from perdure.store.schema import VIEWS, metadata

    return [*metadata.tables, *VIEWS, "alembic_version"]


def require(name: str) -> str:
    """Find one of PostgreSQL's programs.

    Raises: Unavailable
    """
    program = shutil.which(name)
    if program is None:
        raise Unavailable(f"{name} is needed and was not found. Install PostgreSQL's client programs.")
    return program


def _run(name: str, target: PostgresTarget, options: list[str]) -> None:
    from psycopg.conninfo import make_conninfo

    parts = parse_url(target.url)
    password = parts.pop("password", None)
    environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
    command = [require(name), f"--dbname={make_conninfo('', **parts)}", *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = " ".join(done.stderr.split())[:500]
        raise Unavailable(f"{name} failed on {target.shown}: {reason}")
