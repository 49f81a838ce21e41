"""The hot path of a database: plain SQL on the driver's own connection, and transactions that many share.

SQLAlchemy is not imported here: one statement through it costs more than SQLite needs for the whole commit.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from perdure.errors import PerdureError
from perdure.store.migrations import CHAIN

sql_log = logging.getLogger("perdure.store.sql")

Values = tuple[Any, ...]
Item = TypeVar("Item")
Given_contra = TypeVar("Given_contra", contravariant=True)
Result = TypeVar("Result")
T = TypeVar("T")


class RawTransaction:
    """One transaction on a driver's connection; places of values are written `?` whatever the driver wants."""

    head = f"{CHAIN.head:04d}"
    """The newest version of the schema that this program knows, as the database has it."""

    def refuse_newer(self) -> None:
        """See that no newer program has migrated the database, where the transaction has not begun with that.

        Raises: Conflict
        """

    def __init__(self, connection: Any, *, is_logged: bool = False) -> None:
        self._connection = connection
        self._is_logged = is_logged

    def execute(self, statement: str, *values: Any) -> Any:
        """Run a statement and return the driver's cursor."""
        if self._is_logged:
            sql_log.info("%s", statement)
        return self._connection.execute(statement, values)

    def execute_many(self, statement: str, rows: Sequence[Values]) -> None:
        """Run a statement once for each row of values; for one, that is cheaper done as such."""
        if len(rows) == 1:
            self.execute(statement, *rows[0])
            return
        if self._is_logged:
            sql_log.info("%s", statement)
        self._connection.cursor().executemany(statement, rows)

    def first(self, statement: str, *values: Any) -> Values | None:
        """Run a statement and return its first row; none is left unread, it could hold up the commit."""
        rows = self.execute(statement, *values).fetchall()
        return rows[0] if rows else None


class Work(Protocol[Given_contra, Result]):
    """What is done to items that may share a transaction with others of their kind."""

    def together(self, raw: RawTransaction, items: Sequence[Given_contra]) -> "list[Result | PerdureError]":
        """Do all items, in order, and answer each; one that is answered with an error has changed nothing.

        When this raises, everything is undone, and each item is done alone.
        """
        ...

    def alone(self, raw: RawTransaction, item: Given_contra) -> "Result | PerdureError":
        """Do one item that may be why others could not be done."""
        ...

    def is_single(self, items: Sequence[Given_contra]) -> bool:
        """Tell whether `together` changes everything by one statement, which is then a transaction by itself."""
        ...


class RawDatabase(Protocol):
    """The hot path of one open database. Every method is async; the functions given to it run on its threads."""

    async def write_raw(self, fn: Callable[[RawTransaction], T], *, flush: bool = True) -> T:
        """See Database.write; without `flush` a power cut may undo the change, but never a part of it."""
        ...

    async def read_raw(self, fn: Callable[[RawTransaction], T]) -> T:
        """See Database.read."""
        ...

    def watch(self, notice: Callable[[], None]) -> Callable[[], None]:
        """Call a function, on any thread, when another connection may have committed; the returned function ends it."""
        ...

    def announce(self) -> None:
        """Have other processes that watch the database notice soon that something was committed here."""
        ...

    async def group(self, work: Work[Item, Result], item: Item, *, is_only: bool = False) -> Result:
        """Do an item in one transaction with all others of the same work that wait; it is durable when this returns.

        An error of one item is raised to whoever asked for it and leaves the others alone. `is_only` says that nobody
        else is expected: then it may be done at once, on the thread that calls.
        """
        ...
