"""The adapter for a private SQLite database in memory: one connection, one thread, gone at close."""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from perdure.store.backup.new_file import new_file
from perdure.store.database import Connected, Health
from perdure.store.executor import Threads
from perdure.store.group_commit import Groups, Outcomes, do_items
from perdure.store.raw import Item, RawTransaction, Result, Work
from perdure.store.sqlite import faults
from perdure.store.sqlite.connection import connect, engine_over, observed, refuse_when_over, roll_back
from perdure.store.sqlite.facts import health_of, problems_of
from perdure.store.sqlite.files import upgrade_connection
from perdure.store.sqlite.writer import Commit, commit_group, commit_write, transact
from perdure.store.target import MEMORY

if TYPE_CHECKING:
    import sqlalchemy as sa

    from perdure.store.transaction import Transaction

A = TypeVar("A")
T = TypeVar("T")


class SqliteMemoryDatabase:
    """A SQLite database in memory. See Database."""

    def __init__(self, *, debug: bool) -> None:
        self._debug = debug
        self._thread = Threads("perdure-memory", 1)
        self._groups = Groups(self._thread, self._write_group)
        self._connection = connect(None)
        self._engine: sa.Engine | None = None

    @classmethod
    async def open(cls, *, migrate: bool, debug: bool) -> Self:
        """Make a new, private database."""
        database = cls(debug=debug)
        try:
            if migrate:
                await database._thread.run(upgrade_connection, database._connection, MEMORY)
        except BaseException:
            await database.close()
            raise
        return database

    async def write(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.write."""
        from perdure.store.transaction import run_in

        self._groups.seal()
        return await self._thread.run(self._run, lambda core: run_in(core, fn, refuse_when_over))

    async def write_raw(self, fn: Callable[[RawTransaction], T], *, flush: bool = True) -> T:  # noqa: ARG002 (no disk)
        """See RawDatabase.write_raw."""
        self._groups.seal()
        return await self._thread.run(self._transact, fn, commit_write)

    async def group(self, work: Work[Item, Result], item: Item, *, is_only: bool = False) -> Result:
        """See RawDatabase.group."""
        return await self._groups.add(work, item, is_only=is_only)

    async def read(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.read."""
        from perdure.store.transaction import run_in

        return await self._thread.run(self._read, lambda core: run_in(core, fn))

    async def read_raw(self, fn: Callable[[RawTransaction], T]) -> T:
        """See RawDatabase.read_raw."""
        return await self._thread.run(self._read_raw, fn)

    async def health(self) -> Health:
        """See Database.health."""
        return await self._thread.run(health_of, self._connection, MEMORY)

    async def connected(self) -> list[Connected]:
        """See Database.connected."""
        return []

    async def verify(self) -> list[str]:
        """See Database.verify."""
        return await self._thread.run(self._read, problems_of)

    async def backup(self, path: Path) -> None:
        """See Database.backup."""
        await self._thread.run(self._backup, path)

    async def close(self) -> None:
        """See Database.close."""
        self._groups.seal()
        await self._thread.finish(self._connection.close)

    def _run(self, fn: "Callable[[sa.Connection], T]") -> T:
        if self._engine is None:
            self._engine = observed(engine_over(self._connection), is_logged=self._debug)
        with faults.translated_from_core(MEMORY), self._engine.begin() as core:
            return fn(core)

    def _read(self, fn: "Callable[[sa.Connection], T]") -> T:
        return self._run(lambda core: self._only_reading(fn, core))

    def _read_raw(self, fn: Callable[[RawTransaction], T]) -> T:
        return self._transact(lambda raw: self._only_reading(fn, raw), roll_back)

    def _only_reading(self, fn: Callable[[A], T], argument: A) -> T:
        """Refuse what would write inside a transaction that is open."""
        self._connection.execute("PRAGMA query_only = ON")
        try:
            return fn(argument)
        finally:
            self._connection.execute("PRAGMA query_only = OFF")

    def _transact(self, fn: Callable[[RawTransaction], T], commit: Commit) -> T:
        with faults.translated(MEMORY):
            return transact(self._connection, fn, commit, is_logged=self._debug)

    def _write_group(self, work: Work[Any, Any], items: Sequence[Any]) -> Outcomes:
        return do_items(work, items, lambda fn, _is_single: self._transact(fn, commit_group))

    def _backup(self, path: Path) -> None:
        with new_file(path) as part, faults.translated(MEMORY):
            writing = sqlite3.connect(part)
            try:
                self._connection.backup(writing)
            finally:
                writing.close()
