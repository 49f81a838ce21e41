"""The client of the database: the same for a SQLite file, for SQLite in memory and for PostgreSQL."""

import asyncio
import concurrent.futures
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from perdure.errors import PerdureError, Unavailable
from perdure.store.target import PostgresTarget, SqliteTarget, parse_target

if TYPE_CHECKING:
    from perdure.kernel.ports import GoalStore, Leases
    from perdure.store.database import Connected, Database, Health
    from perdure.store.goals.sql_state_store import SqlStateStore
    from perdure.store.raw import RawTransaction
    from perdure.store.transaction import Transaction

BOOKKEEPING = frozenset({"alembic_version"})

T = TypeVar("T")


class DatabaseClient:
    """One open database.

    async with await DatabaseClient.create("work.db") as db:
        count = await db.transaction(lambda tx: tx.scalar("SELECT count(*) FROM tasks"))
    """

    def __init__(self, database: "Database", *, is_postgres: bool = False) -> None:
        self._database = database
        self._is_postgres = is_postgres
        self._store: SqlStateStore | None = None
        self._closing: concurrent.futures.Future[None] | None = None

    @classmethod
    async def create(cls, url_or_path: str | os.PathLike[str], migrate: bool = True, debug: bool = False) -> Self:
        """Open a database; create and migrate it if necessary.

        Accepts a path, `:memory:`, a `sqlite:` URL or a PostgreSQL URL. With `migrate=False` the schema is not
        changed. `debug` logs every statement to the logger `perdure.store.sql`, without values.

        Raises: Invalid, Denied, Damaged, Conflict (a newer version), Unavailable. Nothing is overwritten.
        """
        target = parse_target(url_or_path)
        database = await open_database(target, migrate=migrate, debug=debug)
        return cls(database, is_postgres=isinstance(target, PostgresTarget))

    @staticmethod
    def exists(url_or_path: str | os.PathLike[str]) -> bool:
        """Return whether a database exists, without opening it; always True for a database server.

        An empty file counts only if it has a lock file, so that it was a database before.

        Raises: Invalid, Unavailable
        """
        match parse_target(url_or_path):
            case SqliteTarget(path=Path() as path):
                from perdure.store.sqlite.files import is_log_left, lock_path

                is_file = path.exists() and (path.stat().st_size > 0 or lock_path(path).exists())
                return is_file or is_log_left(path)  # opening it then reports the damage
            case SqliteTarget():
                return False
            case PostgresTarget():
                return True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def transaction(self, fn: "Callable[[Transaction], T]") -> T:
        """Run the synchronous `fn(tx)` in one transaction on the thread of the writer, and return its result.

        When it returns, the change is durable. If `fn` raises, nothing has changed. Writes of one process are
        serialized in the order of their calls.

        Raises: the exception of `fn`; Conflict, Invalid, Denied, Damaged, Unavailable for errors of the database.
        """
        return await self._open().write(_not_async(fn))

    async def read(self, fn: "Callable[[Transaction], T]") -> T:
        """Run the synchronous `fn(tx)` in one read-only transaction, concurrently with the writer.

        Raises: as `transaction`; Denied when `fn` tries to write.
        """
        return await self._open().read(_not_async(fn))

    async def read_raw(self, fn: "Callable[[RawTransaction], T]") -> T:
        """Run the synchronous `fn(raw)` in one read-only transaction of plain SQL, without importing SQLAlchemy.

        Raises: as `read`.
        """
        return await self._open().read_raw(_not_async(fn))

    async def write_raw(self, fn: "Callable[[RawTransaction], T]") -> T:
        """Run the synchronous `fn(raw)` in one transaction of plain SQL, for frequent writes.

        Raises: as `transaction`.
        """
        return await self._open().write_raw(_not_async(fn))

    async def tables(self) -> list[str]:
        """Return the names of the tables, sorted, without the bookkeeping of migrations."""
        import sqlalchemy as sa

        names = await self.read(lambda tx: sa.inspect(tx.connection).get_table_names())
        return sorted(set(names) - BOOKKEEPING)

    async def count_rows(self) -> dict[str, int]:
        """Return the number of rows of each table, from one snapshot."""
        names = await self.tables()
        return await self.read(lambda tx: {name: tx.scalar(f"SELECT count(*) FROM {_quoted(name)}") for name in names})  # noqa: S608

    async def ping(self) -> bool:
        """Return whether the database answers; False after close. Never raises."""
        if self._closing is not None:
            return False
        try:
            return bool(await self.read(lambda tx: tx.scalar("SELECT 1")) == 1)
        except PerdureError:
            return False

    async def health(self) -> "Health":
        """Return version, location and the settings that durability depends on."""
        return await self._open().health()

    async def connected(self) -> "list[Connected]":
        """Return the other processes that have the database open, as far as this process can see them."""
        return await self._open().connected()

    async def verify(self) -> list[str]:
        """Read the whole database and return a sentence for each problem."""
        return await self._open().verify()

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the database into a new file while it is in use: a SQLite file, or a dump of PostgreSQL.

        Raises: Conflict when the file exists; Denied; Unavailable when `pg_dump` is missing.
        """
        await self._open().backup(Path(path))

    def state_store(self) -> "GoalStore":
        """Return the only store of goals for this database in this process."""
        return self._goals()

    def leases(self, *, boottime_s: Callable[[], float], is_dead: Callable[[str], bool]) -> "Leases":
        """Return the leases of goals in this database."""
        database, on_release = self._open(), self._goals().forget_active
        if self._is_postgres:
            from perdure.store.goals.postgres import PostgresLeases

            return PostgresLeases(database, boottime_s=boottime_s, is_dead=is_dead, on_release=on_release)
        from perdure.store.goals.sqlite import SqliteLeases

        return SqliteLeases(database, boottime_s=boottime_s, is_dead=is_dead, on_release=on_release)

    def _goals(self) -> "SqlStateStore":
        if self._store is None and self._is_postgres:
            from perdure.store.goals.postgres import PostgresStateStore

            self._store = PostgresStateStore(self._open())
        elif self._store is None:
            from perdure.store.goals.sqlite import SqliteStateStore

            self._store = SqliteStateStore(self._open())
        return self._store

    async def close(self) -> None:
        """Finish the pending work and close all connections. May be called more than once."""
        if self._closing is None:
            self._closing = concurrent.futures.Future()
            task = asyncio.ensure_future(self._database.close())
            task.add_done_callback(self._closed)
            await asyncio.shield(task)
        else:
            await asyncio.shield(asyncio.wrap_future(self._closing))

    def _closed(self, _task: object) -> None:
        if self._closing is not None:
            self._closing.set_result(None)

    def _open(self) -> "Database":
        if self._closing is not None:
            raise Unavailable("This database client is closed. Open a new one.")
        return self._database


async def open_database(
    target: SqliteTarget | PostgresTarget, *, migrate: bool = True, debug: bool = False
) -> "Database":
    """Open the adapter of a database. See DatabaseClient.create."""
    match target:
        case SqliteTarget(path=Path() as path):
            from perdure.store.sqlite.file_database import SqliteFileDatabase

            return await SqliteFileDatabase.open(path, migrate=migrate, debug=debug)
        case SqliteTarget():
            from perdure.store.sqlite.memory_database import SqliteMemoryDatabase

            return await SqliteMemoryDatabase.open(migrate=migrate, debug=debug)
        case PostgresTarget():
            from perdure.store.postgres.database import PostgresDatabase

            return await PostgresDatabase.open(target, migrate=migrate, debug=debug)


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""').replace(":", "\\:"))


def _not_async(fn: Callable[..., T]) -> Callable[..., T]:
    if inspect.iscoroutinefunction(fn):
        raise TypeError("a transaction requires a plain function, because it must not await")
    return fn
