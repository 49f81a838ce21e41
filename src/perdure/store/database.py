"""The port between the client and the two kinds of database, and the values that cross it."""

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
    """What a database says about itself; `facts` differ between the kinds."""

    database: str
    location: str
    version: int
    facts: dict[str, object]

    @property
    def head(self) -> int:
        return CHAIN.head


@dataclass(frozen=True, order=True)
class Connected:
    """A process that has a database open; one of an older program may have told only where it is."""

    host: str
    pid: int | None = None


class Database(RawDatabase, Protocol):
    """One open database. Every method is async; the functions given to it are not, and run on its threads."""

    async def write(self, fn: "Callable[[Transaction], T]") -> T:
        """Run `fn` in one transaction on the one writer, after everything that was asked for before.

        When it returns, the change is on stable storage. When it raises, the change is wholly absent, except
        where the message says that the outcome is not known.

        Every write transaction, this and those of RawDatabase, sees the version of the schema first.

        Raises: Conflict when a newer program has migrated the database meanwhile; it can still be read.
        """
        ...

    async def read(self, fn: "Callable[[Transaction], T]") -> T:
        """Run `fn` in one read-only transaction: it sees one state, and holds up no writer."""
        ...

    async def health(self) -> Health:
        """Look, change nothing."""
        ...

    async def connected(self) -> list[Connected]:
        """Return the other processes that have the database open, as far as can be seen from here."""
        ...

    async def verify(self) -> list[str]:
        """Read everything and return what is wrong, a sentence each; empty when all is well."""
        ...

    async def backup(self, path: Path) -> None:
        """Copy the database to a new file while writers go on; the file is whole or absent."""
        ...

    async def close(self) -> None:
        """Finish the pending work, then close all connections."""
        ...
