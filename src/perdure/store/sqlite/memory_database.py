"""The adapter for a private SQLite database in memory: one connection on one thread."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from perdure.store.backup.new_file import new_file
from perdure.store.database import Connected, Health
from perdure.store.executor import Executor
from perdure.store.group_commit import GroupCommit
from perdure.store.raw import RawTransaction, TransactionKind
from perdure.store.sqlite import faults
from perdure.store.sqlite.connection import connect, engine_over, observed, refuse_when_over, roll_back
from perdure.store.sqlite.facts import health_of, problems_of
from perdure.store.sqlite.files import upgrade_connection
from perdure.store.sqlite.writer import run_transaction
from perdure.store.target import MEMORY

if TYPE_CHECKING:
    import sqlalchemy as sa

    from perdure.store.transaction import Transaction

A = TypeVar("A")
T = TypeVar("T")


class SqliteMemoryDatabase(GroupCommit):
    """A SQLite database in memory. See Database."""

    def __init__(self, *, debug: bool) -> None:
        super().__init__(Executor("perdure-memory", 1))
        self._debug = debug
        self._connection = connect(None)
        self._engine: sa.Engine | None = None

    @classmethod
    async def open(cls, *, migrate: bool, debug: bool) -> Self:
        """Create a new, private database."""
        database = cls(debug=debug)
        try:
            if migrate:
                await database._writer_thread.run(upgrade_connection, database._connection, MEMORY)
        except BaseException:
            await database.close()
            raise
        return database

    def transact(self, fn: Callable[[Any], T], kind: TransactionKind) -> T:
        """See GroupCommit.transact."""
        if kind.uses_sqlalchemy:
            from perdure.store.transaction import run_in

            return self._run(lambda core: run_in(core, fn, refuse_when_over))
        with faults.translated(MEMORY):
            return run_transaction(self._connection, fn, kind, is_logged=self._debug)

    def watch(self, notice: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002 (no other process has it)
        """See RawDatabase.watch."""
        return lambda: None

    def announce(self) -> None:
        """See RawDatabase.announce."""

    async def read(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.read."""
        from perdure.store.transaction import run_in

        return await self._writer_thread.run(self._read, lambda core: run_in(core, fn))

    async def read_raw(self, fn: Callable[[RawTransaction], T]) -> T:
        """See RawDatabase.read_raw."""
        return await self._writer_thread.run(self._read_raw, fn)

    async def health(self) -> Health:
        """See Database.health."""
        return await self._writer_thread.run(health_of, self._connection, MEMORY)

    async def connected(self) -> list[Connected]:
        """See Database.connected."""
        return []

    async def verify(self) -> list[str]:
        """See Database.verify."""
        return await self._writer_thread.run(self._read, problems_of)

    async def backup(self, path: Path) -> None:
        """See Database.backup."""
        await self._writer_thread.run(self._backup, path)

    async def close(self) -> None:
        """See Database.close."""
        self.seal()
        await self._writer_thread.finish(self._connection.close)

    def _run(self, fn: "Callable[[sa.Connection], T]") -> T:
        if self._engine is None:
            self._engine = observed(engine_over(self._connection), is_logged=self._debug)
        with faults.translated_from_core(MEMORY), self._engine.begin() as core:
            return fn(core)

    def _read(self, fn: "Callable[[sa.Connection], T]") -> T:
        return self._run(lambda core: self._only_reading(fn, core))

    def _read_raw(self, fn: Callable[[RawTransaction], T]) -> T:
        with faults.translated(MEMORY):
            self._connection.execute("BEGIN")
            try:
                return self._only_reading(fn, RawTransaction(self._connection, is_logged=self._debug))
            finally:
                roll_back(self._connection)

    def _only_reading(self, fn: Callable[[A], T], argument: A) -> T:
        """Call a function in an open transaction that rejects writes."""
        self._connection.execute("PRAGMA query_only = ON")
        try:
            return fn(argument)
        finally:
            self._connection.execute("PRAGMA query_only = OFF")

    def _backup(self, path: Path) -> None:
        with new_file(path) as part, faults.translated(MEMORY):
            writing = sqlite3.connect(part)
            try:
                self._connection.backup(writing)
            finally:
                writing.close()
