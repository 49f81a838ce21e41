"""The port of the two kinds of database, and its values."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from perdure.store.migrations import CHAIN
from perdure.store.raw import RawDatabase

if TYPE_CHECKING:
    from perdure.store.transaction import Transaction

T = TypeVar("T")


@dataclass(frozen=True)
class Health:
    """The state of a database; `facts` differ between the kinds."""

    database: str
    location: str
    version: int
    facts: dict[str, object]

    @property
    def head(self) -> int:
        return CHAIN.head


@dataclass(frozen=True, order=True)
class Connected:
    """A process that has a database open; an older program may report only its host."""

    host: str
    pid: int | None = None


class Database(RawDatabase, Protocol):
    """One open database. Its methods are async; the functions passed to them are synchronous and run on its threads."""

    async def write(self, fn: "Callable[[Transaction], T]") -> T:
        """Run `fn` in one transaction on the writer, after all earlier writes.

        When it returns, the change is on stable storage. When it raises, nothing has changed, unless the message says
        that the outcome is unknown.

        Every write transaction, including those of RawDatabase, checks the version of the schema first.

        Raises: Conflict when a newer program has migrated the database meanwhile; it can still be read.
        """
        ...

    async def read(self, fn: "Callable[[Transaction], T]") -> T:
        """Run `fn` in one read-only transaction, on one snapshot, without blocking writers."""
        ...

    async def health(self) -> Health:
        """Return the state of the database without changing it."""
        ...

    async def connected(self) -> list[Connected]:
        """Return the other processes that have the database open, as far as this process can see them."""
        ...

    async def verify(self) -> list[str]:
        """Read the whole database and return a sentence for each problem."""
        ...

    async def backup(self, path: Path) -> None:
        """Copy the database to a new file while writers continue. The file is complete or does not exist."""
        ...

    async def close(self) -> None:
        """Finish the pending work, then close all connections."""
        ...
