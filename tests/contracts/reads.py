"""Counts what a database reads: instructions of SQLite's virtual machine, or rows that PostgreSQL has scanned."""

import json
import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from perdure.store.database import Database
from perdure.store.raw import RawTransaction

T = TypeVar("T")


class CountedReads:
    """A database whose plain transactions are counted."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.count = 0

    def taken(self) -> int:
        """Return what was read since the last call."""
        count, self.count = self.count, 0
        return count

    async def read_raw(self, fn: Callable[[RawTransaction], T]) -> T:
        return await self._database.read_raw(lambda raw: self._counted(raw, fn))

    async def write_raw(self, fn: Callable[[RawTransaction], T], *, flush: bool = True) -> T:
        return await self._database.write_raw(lambda raw: self._counted(raw, fn), flush=flush)

    def _counted(self, raw: RawTransaction, fn: Callable[[RawTransaction], T]) -> T:
        connection = raw._connection
        if not isinstance(connection, sqlite3.Connection):
            return fn(_Explained(raw, self))
        connection.set_progress_handler(self._step, 1)
        try:
            return fn(raw)
        finally:
            connection.set_progress_handler(None, 0)

    def _step(self) -> int:
        self.count += 1
        return 0


class _Explained(RawTransaction):
    """Asks PostgreSQL, before each query, how many rows it scans for it."""

    def __init__(self, raw: RawTransaction, reads: CountedReads) -> None:
        super().__init__(raw._connection)
        self._raw = raw
        self._reads = reads

    def execute(self, statement: str, *values: Any) -> Any:
        if statement.lstrip().startswith(("SELECT", "WITH")):
            (plan,) = self._raw.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *values).fetchone()
            self._reads.count += _scanned((plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"])
        return self._raw.execute(statement, *values)


def _scanned(node: dict[str, Any]) -> int:
    """Return how many rows the scans of tables in a plan have seen, those that a filter removed included."""
    found = sum(_scanned(each) for each in node.get("Plans", ()))
    if "Relation Name" in node:
        found += (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
    return int(found)
