"""The adapter for a private SQLite database in memory: one connection, one thread, gone at close."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from perdure.store.database import Health
from perdure.store.durable import new_file
from perdure.store.sqlite import faults
from perdure.store.sqlite.connection import connect, engine_over, refuse_when_over
from perdure.store.sqlite.facts import health_of, problems_of
from perdure.store.sqlite.files import upgrade_connection
from perdure.store.target import MEMORY
from perdure.store.threads import Threads

if TYPE_CHECKING:
    import sqlalchemy as sa

    from perdure.store.transaction import Transaction

T = TypeVar("T")


class SqliteMemoryDatabase:
    """A SQLite database in memory. See Database."""

    def __init__(self, *, debug: bool) -> None:
        self._debug = debug
        self._thread = Threads("perdure-memory", 1)
        self._connection = connect(None)
        self._engine: sa.Engine | None = None

    @classmethod
    async def open(cls, *, migrate: bool, debug: bool) -> Self:
        """Make a new, private database."""
        database = cls(debug=debug)
        if migrate:
            await database._thread.run(upgrade_connection, database._connection, MEMORY)
        return database

    async def write(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.write."""
        from perdure.store.transaction import run_in

        return await self._thread.run(self._run, lambda core: run_in(core, fn, refuse_when_over))

    async def read(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.read."""
        from perdure.store.transaction import run_in

        return await self._thread.run(self._read, lambda core: run_in(core, fn))

    async def health(self) -> Health:
        """See Database.health."""
        return await self._thread.run(health_of, self._connection, MEMORY)

    async def verify(self) -> list[str]:
        """See Database.verify."""
        return await self._thread.run(self._read, problems_of)

    async def backup(self, path: Path) -> None:
        """See Database.backup."""
        await self._thread.run(self._backup, path)

    async def close(self) -> None:
        """See Database.close."""
        await self._thread.run(self._connection.close)
        self._thread.stop()

    def _run(self, fn: "Callable[[sa.Connection], T]") -> T:
        if self._engine is None:
            from perdure.store.transaction import log_statements

            self._engine = engine_over(self._connection)
            if self._debug:
                log_statements(self._engine)
        with faults.translated_from_core(MEMORY), self._engine.begin() as core:
            return fn(core)

    def _read(self, fn: "Callable[[sa.Connection], T]") -> T:
        def guarded(core: "sa.Connection") -> T:
            core.exec_driver_sql("PRAGMA query_only = ON")
            try:
                return fn(core)
            finally:
                core.exec_driver_sql("PRAGMA query_only = OFF")

        return self._run(guarded)

    def _backup(self, path: Path) -> None:
        with new_file(path) as part, faults.translated(MEMORY):
            writing = sqlite3.connect(part)
            try:
                self._connection.backup(writing)
            finally:
                writing.close()
