"""The hot path of a database: plain SQL on the driver's own connection, and transactions that many share.

SQLAlchemy is not imported here: one statement through it costs more than SQLite needs for the whole commit.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from perdure import failpoints
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


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """What a write transaction holds: it decides how durable its commit is, and which fail-points are around it."""

    is_flushed: bool = True
    """False: a power cut may undo the commit, but never a part of it."""
    is_core: bool = False
    """Whether it is on SQLAlchemy's connection."""
    is_batch: bool = False
    """Whether it holds items of a batch."""
    is_statement: bool = False
    """Whether it is one statement, which needs no transaction around it."""

    def hit_before_commit(self) -> None:
        """Reach the fail-point in front of the commit."""
        if self.is_batch:
            failpoints.hit("store.append.before")
        else:
            failpoints.hit("store.commit.before")

    def hit_after_commit(self) -> None:
        """Reach the fail-point behind the commit."""
        if self.is_batch:
            failpoints.hit("store.append.after")
        else:
            failpoints.hit("store.commit.after")


WRITE = Kind()
UNFLUSHED = Kind(is_flushed=False)
CORE = Kind(is_core=True)
GROUP = Kind(is_batch=True)
STATEMENT = Kind(is_batch=True, is_statement=True)


class WouldWait(Exception):
    """A transaction that must not wait did not begin: the lock is held, or the connection has to be opened first."""


class Batch(Protocol[Given_contra, Result]):
    """How items of one kind are written: together in one transaction, or one by one."""

    def apply(self, raw: RawTransaction, items: Sequence[Given_contra]) -> "list[Result | PerdureError]":
        """Write all items, in order, and answer each; an item that is answered with an error has changed nothing.

        When this raises, the transaction is rolled back, and each item is applied in one of its own.
        """
        ...

    def apply_one(self, raw: RawTransaction, item: Given_contra) -> "Result | PerdureError":
        """Write one item, which may be why the others could not be written."""
        ...

    def is_single_statement(self, items: Sequence[Given_contra]) -> bool:
        """Tell whether `apply` writes these items by one statement, which is then a transaction by itself."""
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

    async def submit(self, batch: Batch[Item, Result], item: Item, *, is_only: bool = False) -> Result:
        """Write an item in one transaction with all others of the same batch that wait; it is durable on return.

        An error of one item is raised to its caller and leaves the others alone. `is_only` says that no other item is
        expected: then it may be written at once, on the thread that calls.
        """
        ...
