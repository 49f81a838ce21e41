"""Plain SQL on connections of the driver, for frequent operations, and shared transactions.

SQLAlchemy is not imported here: one statement through it takes longer than a whole commit of SQLite.
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
Item_contra = TypeVar("Item_contra", contravariant=True)
Result = TypeVar("Result")
T = TypeVar("T")


class RawTransaction:
    """One transaction on a connection of the driver; placeholders are `?` for every driver."""

    head = f"{CHAIN.head:04d}"
    """The newest known version of the schema, in the form of the database."""

    def __init__(self, connection: Any, *, is_logged: bool = False) -> None:
        self._connection = connection
        self._is_logged = is_logged

    def refuse_newer(self) -> None:
        """Check that no newer program has migrated the database; an adapter overrides it.

        Here it does nothing: the other transactions begin with this check. Only a single statement has no beginning,
        so it calls this when it has changed fewer rows than expected.

        Raises: Conflict
        """

    def execute(self, statement: str, *values: Any) -> Any:
        """Run a statement and return the driver's cursor."""
        if self._is_logged:
            sql_log.info("%s", statement)
        return self._connection.execute(statement, values)

    def execute_many(self, statement: str, rows: Sequence[Values]) -> None:
        """Run a statement for each row of values; a single row uses `execute`, which is faster."""
        if len(rows) == 1:
            self.execute(statement, *rows[0])
            return
        if self._is_logged:
            sql_log.info("%s", statement)
        self._connection.cursor().executemany(statement, rows)

    def first(self, statement: str, *values: Any) -> Values | None:
        """Run a statement and return its first row; all rows are read, because unread ones could block the commit."""
        rows = self.execute(statement, *values).fetchall()
        return rows[0] if rows else None


@dataclass(frozen=True, slots=True, eq=False)
class TransactionKind:
    """Determines how a write transaction is begun and committed, and which fail-points it hits."""

    is_flushed: bool = True
    """Whether the commit is flushed; else a power failure may undo it, but only as a whole."""
    uses_sqlalchemy: bool = False
    """Whether it runs on the connection of SQLAlchemy, instead of that of the driver."""
    is_group: bool = False
    """Whether it writes items that were submitted; see `RawDatabase.submit`."""
    is_statement: bool = False
    """Whether it is a single statement, which needs no explicit transaction."""

    def hit_before_commit(self) -> None:
        """Hit the fail-point before the commit."""
        if self.is_group:
            failpoints.hit("store.append.before")
        else:
            failpoints.hit("store.commit.before")

    def hit_after_commit(self) -> None:
        """Hit the fail-point after the commit."""
        if self.is_group:
            failpoints.hit("store.append.after")
        else:
            failpoints.hit("store.commit.after")


WRITE = TransactionKind()
UNFLUSHED = TransactionKind(is_flushed=False)
CORE = TransactionKind(uses_sqlalchemy=True)
GROUP = TransactionKind(is_group=True)
STATEMENT = TransactionKind(is_group=True, is_statement=True)


class WouldWait(Exception):
    """A transaction that must not wait did not begin: the lock is held, or the connection is not open."""


class ItemWriter(Protocol[Item_contra, Result]):
    """Knows how to write items of one sort: all in one transaction, or one alone."""

    def apply(self, raw: RawTransaction, items: Sequence[Item_contra]) -> "list[Result | PerdureError]":
        """Write all items in order, and return a result for each. An item whose result is an error has changed nothing.

        If this raises, the transaction is rolled back, and each item is written in its own transaction.
        """
        ...

    def apply_one(self, raw: RawTransaction, item: Item_contra) -> "Result | PerdureError":
        """Write one item, which may be the cause of a failed `apply`."""
        ...

    def is_single_statement(self, items: Sequence[Item_contra]) -> bool:
        """Return whether `apply` writes these items by one statement, which needs no explicit transaction."""
        ...


class RawDatabase(Protocol):
    """One open database for plain SQL. Functions passed to its methods run on its threads."""

    async def write_raw(self, fn: Callable[[RawTransaction], T], *, flush: bool = True) -> T:
        """See Database.write. Without `flush`, a power failure may undo the change, but only as a whole."""
        ...

    async def read_raw(self, fn: Callable[[RawTransaction], T]) -> T:
        """See Database.read."""
        ...

    def watch(self, notice: Callable[[], None]) -> Callable[[], None]:
        """Call a function, on any thread, when another connection may have committed; the returned function ends it."""
        ...

    def announce(self) -> None:
        """Soon notify the processes that watch the database that this process has committed."""
        ...

    async def submit(
        self, item_writer: ItemWriter[Item, Result], item: Item, *, expects_no_other: bool = False
    ) -> Result:
        """Write an item in one transaction with the waiting items of the same writer; it is durable on return.

        An error of one item is raised to its caller and does not affect the others. With `expects_no_other`, it may be
        written at once on the calling thread, before items that wait in the open group.
        """
        ...
