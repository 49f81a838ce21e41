"""Runs `pg_dump` and `pg_restore`, without secrets in the command line."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.errors import Damaged, Invalid, Unavailable
from perdure.store.postgres import faults
from perdure.store.postgres.connection import connect, parse_url
from perdure.store.target import PostgresTarget

if TYPE_CHECKING:
    import psycopg


def dump(target: PostgresTarget, path: Path) -> None:
    """Write a snapshot of the tables of Perdure to a file in the custom format of pg_dump.

    Raises: Unavailable when pg_dump is missing or fails.
    """
    with faults.translated(target.shown), connect(target.url, autocommit=True) as connection:
        foreign = connection.execute(
            "SELECT quote_ident(relname) FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
            " AND relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT relname = ANY(%s)",
            [_names()],
        ).fetchall()
    options = ["--format=custom", "--no-owner", "--no-privileges", _schema_option(target)]
    _run("pg_dump", target, [*options, *[f"--exclude-table={row[0]}" for row in foreign], f"--file={path}"])


def examine(target: PostgresTarget, path: Path) -> None:
    """Read a dump to its end, and check that it contains the tables of Perdure in the schema of the database.

    Raises: Unavailable when pg_restore is missing or too old for it; Damaged; Invalid
    """
    listing = _run("pg_restore", None, ["--list", str(path)])
    if f" TABLE DATA {current_schema(target)} alembic_version " not in listing:
        raise Invalid(f"The backup is not of the schema {current_schema(target)}, which {target.shown} uses.")
    try:
        _run("pg_restore", None, [f"--file={os.devnull}", str(path)])
    except Unavailable as error:
        raise Damaged(f"The dump in the backup cannot be read to its end: {error.detail}") from error


def restore(target: PostgresTarget, path: Path) -> None:
    """Load a dump into a schema without tables of Perdure, in one transaction.

    Raises: Unavailable when pg_restore is missing or fails; the database is then unchanged.
    """
    options = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
    _run("pg_restore", target, [*options, f"--schema={current_schema(target)}", str(path)])


def current_schema(target: PostgresTarget) -> str:
    """Return the schema of the tables of Perdure."""
    with faults.translated(target.shown), connect(target.url, autocommit=True) as connection:
        row = connection.execute("SELECT current_schema()").fetchone()
    return str(row[0]) if row and row[0] else "public"


def ours_in(connection: "psycopg.Connection[Any]") -> list[str]:
    """Return the names of the tables and views of Perdure in the current schema."""
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
    """Return the path of a client program of PostgreSQL.

    Raises: Unavailable
    """
    program = shutil.which(name)
    if program is None:
        raise Unavailable(f"{name} is needed and was not found. Install PostgreSQL's client programs.")
    return program


def _schema_option(target: PostgresTarget) -> str:
    """Return the option for the schema for pg_dump, which expects a pattern."""
    quoted = current_schema(target).replace('"', '""')
    return f'--schema="{quoted}"'


def _run(name: str, target: PostgresTarget | None, options: list[str]) -> str:
    """Run a program. The connection parameters are in a private file, because command lines are public."""
    with tempfile.TemporaryDirectory(prefix="perdure-") as folder:
        environment = dict(os.environ)
        if target is not None:
            service = Path(folder) / "service.conf"
            lines = [f"{key}={value}" for key, value in parse_url(target.url).items()]
            service.write_text("\n".join(["[perdure]", *lines, ""]), encoding="utf-8")
            environment["PGSERVICEFILE"] = str(service)
            options = ["--dbname=service=perdure", *options]
        done = subprocess.run(
            [require(name), *options], env=environment, capture_output=True, text=True, errors="replace", check=False
        )
    if done.returncode != 0:
        reason = " ".join(done.stderr.split())[:500]
        raise Unavailable(f"{name} failed{f' on {target.shown}' if target else ''}: {reason}")
    return done.stdout
