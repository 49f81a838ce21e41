"""`pg_dump` and `pg_restore`, run with everything secret kept out of the command line."""

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
    """Write our tables with all their rows, as of one moment, into a file of pg_dump's custom format.

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
    """Read such a file to its end, and see that it holds our tables, in the schema that the database uses.

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
    """Load such a file into a schema that has no tables of ours, in one transaction.

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


def _schema_option(target: PostgresTarget) -> str:
    """Name the schema for pg_dump, which takes a pattern; pg_restore takes a name."""
    quoted = current_schema(target).replace('"', '""')
    return f'--schema="{quoted}"'


def _run(name: str, target: PostgresTarget | None, options: list[str]) -> str:
    """Run a program. How to reach the server stands in a private file: everybody can see a command line."""
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
