"""A database that is opened at its first use, for stores that are constructed without an `await`."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from perdure.errors import Unavailable
from perdure.store.client import DatabaseClient, open_database
from perdure.store.database import Connected, Database, Health
from perdure.store.raw import Item, ItemWriter, RawTransaction, Result
from perdure.store.target import PostgresTarget, SqliteTarget, parse_target

if TYPE_CHECKING:
    from perdure.store.transaction import Transaction

T = TypeVar("T")
Place = str | os.PathLike[str]
"""A path, `:memory:`, a `sqlite:` URL or a PostgreSQL URL."""


class DatabaseOnDemand:
    """Opens, creates and migrates a database at its first use; a failed opening is retried. See Database."""

    def __init__(self, target: SqliteTarget | PostgresTarget) -> None:
        self._target = target
        self._open_lock = asyncio.Lock()
        self._database: Database | None = None
        self._is_closed = False
        self._watches: dict[Callable[[], None], Callable[[], None] | None] = {}
        """By listener, the function that ends its watch; None until the database is open."""

    async def write(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.write."""
        return await (await self._open()).write(fn)

    async def read(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.read."""
        return await (await self._open()).read(fn)

    async def write_raw(self, fn: Callable[[RawTransaction], T], *, flush: bool = True) -> T:
        """See RawDatabase.write_raw."""
        return await (await self._open()).write_raw(fn, flush=flush)

    async def read_raw(self, fn: Callable[[RawTransaction], T]) -> T:
        """See RawDatabase.read_raw."""
        return await (await self._open()).read_raw(fn)

    def watch(self, notice: Callable[[], None]) -> Callable[[], None]:
        """See RawDatabase.watch. Does not open a database that was never used."""
        self._watches[notice] = None if self._database is None else self._database.watch(notice)

        def end() -> None:
            if (stop := self._watches.pop(notice)) is not None:
                stop()

        return end

    def announce(self) -> None:
        """See RawDatabase.announce."""
        if self._database is not None:
            self._database.announce()

    async def submit(
        self, item_writer: ItemWriter[Item, Result], item: Item, *, expects_no_other: bool = False
    ) -> Result:
        """See RawDatabase.submit."""
        return await (await self._open()).submit(item_writer, item, expects_no_other=expects_no_other)

    async def health(self) -> Health:
        """See Database.health."""
        return await (await self._open()).health()

    async def connected(self) -> list[Connected]:
        """See Database.connected."""
        return await (await self._open()).connected()

    async def verify(self) -> list[str]:
        """See Database.verify."""
        return await (await self._open()).verify()

    async def backup(self, path: Path) -> None:
        """See Database.backup."""
        await (await self._open()).backup(path)

    async def close(self) -> None:
        """See Database.close. Does not open a database that was never used."""
        async with self._open_lock:
            self._is_closed = True
            database, self._database = self._database, None
        if database is not None:
            await database.close()

    async def _open(self) -> Database:
        """Return the open database.

        Raises: as DatabaseClient.create; Unavailable after `close`.
        """
        async with self._open_lock:
            if self._is_closed:
                raise Unavailable(f"The store over {self._target.shown} is closed. Create a new one.")
            if self._database is None:
                self._database = await open_database(self._target)
                self._watches = {notice: self._database.watch(notice) for notice in self._watches}
            return self._database


class ClientUser:
    """A store that uses the client of its caller, or opens and owns a database."""

    def __init__(self, client: DatabaseClient | Place) -> None:
        self._is_owner = not isinstance(client, DatabaseClient)
        self._client = client if isinstance(client, DatabaseClient) else client_of(client)

    async def close(self) -> None:
        """Close the database if this store owns it; the client of a caller stays open."""
        if self._is_owner:
            await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def client_of(place: Place) -> DatabaseClient:
    """Return a client of a database that is opened at its first use.

    Raises: Invalid when the path or URL is not valid.
    """
    target = parse_target(place)
    return DatabaseClient(DatabaseOnDemand(target), is_postgres=isinstance(target, PostgresTarget))
