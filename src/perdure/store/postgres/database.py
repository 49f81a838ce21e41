"""The adapter for PostgreSQL: one thread writes, a few read."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from perdure.errors import Conflict, Invalid
from perdure.store.backup.new_file import new_file
from perdure.store.commit_watch import CommitWatch
from perdure.store.database import Connected, Health
from perdure.store.executor import Executor
from perdure.store.group_commit import GroupCommit
from perdure.store.migrations import CHAIN, Chain
from perdure.store.postgres import faults, tools
from perdure.store.postgres.connection import (
    MIGRATION_LOCK,
    connect,
    connected_to,
    engine_over,
    raw,
    require_driver,
)
from perdure.store.postgres.guard import Guard, lock_goals
from perdure.store.postgres.notifications import Notifier, listen
from perdure.store.postgres.writer import PostgresTransaction, Writer, refuse_when_aborted
from perdure.store.raw import CORE, RawTransaction, TransactionKind
from perdure.store.target import PostgresTarget

if TYPE_CHECKING:
    import psycopg
    import sqlalchemy as sa

    from perdure.store.transaction import Transaction

READERS = 4
_LOCK_WAIT_S = 30
_CLOSE_S = 15.0
"""How long `close` waits for a server that does not answer."""
log = logging.getLogger(__name__)

T = TypeVar("T")


class PostgresDatabase(GroupCommit):
    """A PostgreSQL database. See Database."""

    def __init__(self, target: PostgresTarget, *, debug: bool, chain: Chain) -> None:
        super().__init__(Executor("perdure-writer", 1))
        self._target = target
        self._chain = chain
        self._debug = debug
        self._reader_threads = Executor("perdure-reader", READERS)
        self._guard = Guard(chain, target.shown)
        self._writer = Writer(target, self._guard, is_logged=debug)
        self._writing_engine = engine_over(target.url, size=1)
        self._reading_engine = engine_over(target.url, size=READERS, is_reader=True)
        self._notifier = Notifier(lambda note: self._writer_thread.submit(partial(self._writer.send, note)))
        self._commits = CommitWatch("perdure-commits", partial(listen, target, self._notifier.note))
        if debug:
            from perdure.store.transaction import log_statements

            log_statements(self._writing_engine)
            log_statements(self._reading_engine)

    @classmethod
    async def open(cls, target: PostgresTarget, *, migrate: bool, debug: bool, chain: Chain = CHAIN) -> Self:
        """Connect, and migrate the schema if necessary."""
        require_driver()
        database = cls(target, debug=debug, chain=chain)
        try:
            await database._writer_thread.run(database._open, migrate)
        except BaseException:
            await database.close()
            raise
        return database

    def watch(self, notice: Callable[[], None]) -> Callable[[], None]:
        """See RawDatabase.watch."""
        return self._commits.watch(notice)

    def announce(self) -> None:
        """See RawDatabase.announce."""
        self._notifier.announce()

    def transact(self, fn: Callable[[Any], T], kind: TransactionKind) -> T:
        """See GroupCommit.transact."""
        return self._transact_core(fn) if kind.uses_sqlalchemy else self._writer.transact(fn, kind)

    async def read(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.read."""
        from perdure.store.transaction import run_in

        return await self._reader_threads.run(self._read, lambda core: run_in(core, fn))

    async def read_raw(self, fn: Callable[[RawTransaction], T]) -> T:
        """See RawDatabase.read_raw."""
        return await self._reader_threads.run(
            self._read, lambda core: fn(PostgresTransaction(raw(core), self._guard, is_logged=self._debug))
        )

    async def health(self) -> Health:
        """See Database.health."""
        return await self._writer_thread.run(self._health)

    async def connected(self) -> list[Connected]:
        """See Database.connected."""
        return await self._reader_threads.run(self._read, lambda core: connected_to(raw(core)))

    async def verify(self) -> list[str]:
        """See Database.verify."""
        return await self._reader_threads.run(self._read, _problems)

    async def backup(self, path: Path) -> None:
        """See Database.backup."""
        await self._reader_threads.run(self._backup, path)

    async def close(self) -> None:
        """See Database.close."""
        self.seal()
        self._notifier.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._writer_thread.finish(self._close)
        except TimeoutError:  # its thread is a daemon, so it does not block the end of the process
            log.warning("could not close %s: no answer", self._target.shown)

    def _open(self, migrate: bool) -> None:
        with faults.translated_from_core(self._target.shown):
            with connect(self._target.url, autocommit=True) as connection:
                if _one(connection, "SELECT current_schema()") is None:
                    raise Invalid(f"The schema of {self._target.shown} does not exist. Create it with CREATE SCHEMA.")
                version = self._version(connection)
            if migrate and version < self._chain.head:
                self._migrate()

    def _migrate(self) -> None:
        from sqlalchemy.event import listen

        from perdure.store.migrate import run_migrations

        engine = engine_over(self._target.url, size=1)
        listen(engine, "begin", lock_goals)
        try:
            with engine.connect() as core:
                connection = raw(core)
                connection.execute(f"SET lock_timeout = '{_LOCK_WAIT_S}s'")
                connection.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
                version = self._version(connection)
                connection.commit()
                if version < self._chain.head:  # no other process migrated during the wait for the lock
                    run_migrations(core, self._chain, lambda _revision: None)
        finally:
            engine.dispose()  # ends the session, and with it the lock

    def _version(self, connection: "psycopg.Connection[Any]") -> int:
        return version_of(connection, self._chain, self._target.shown)

    def _transact_core(self, fn: "Callable[[Transaction], T]") -> T:
        from perdure.store.transaction import run_in

        with (
            faults.translated_from_core(self._target.shown),
            self._writing_engine.connect() as core,
            core.begin() as transaction,
        ):
            self._guard.check_begun(raw(core))
            result = run_in(core, fn, _refuse_when_aborted)
            CORE.hit_before_commit()
            self._commit(transaction)
        CORE.hit_after_commit()
        return result

    def _commit(self, transaction: "sa.RootTransaction") -> None:
        """Commit; when the connection breaks meanwhile, the outcome is unknown."""
        from sqlalchemy.exc import DBAPIError

        try:
            transaction.commit()
        except DBAPIError as error:
            if error.connection_invalidated:
                raise faults.unknown_outcome(self._target.shown) from error
            raise

    def _read(self, fn: "Callable[[sa.Connection], T]") -> T:
        with faults.translated_from_core(self._target.shown), self._reading_engine.begin() as core:
            return fn(core)

    def _health(self) -> Health:
        with faults.translated_from_core(self._target.shown), self._writing_engine.begin() as core:
            connection = raw(core)
            return Health(
                database="postgresql",
                location=self._target.shown,
                version=self._version(connection),
                facts={
                    "server_version": _one(connection, "SHOW server_version"),
                    "synchronous_commit": _one(connection, "SHOW synchronous_commit"),
                    "fsync": _one(connection, "SHOW fsync") == "on",
                    "schema": _one(connection, "SELECT current_schema()"),
                    "size_bytes": _one(connection, "SELECT pg_database_size(current_database())"),
                },
            )

    def _backup(self, path: Path) -> None:
        with new_file(path) as part:
            tools.dump(self._target, part)

    def _close(self) -> None:
        self._reader_threads.stop(wait=True)
        self._commits.close()
        self._writer.close()
        self._reading_engine.dispose()
        self._writing_engine.dispose()


def _refuse_when_aborted(transaction: "Transaction") -> None:
    """See refuse_when_aborted. Without any statement, there is nothing to lose."""
    if transaction.has_run:
        refuse_when_aborted(raw(transaction.connection))


def version_of(connection: "psycopg.Connection[Any]", chain: Chain, location: str) -> int:
    """Return the version of the schema; 0 without a schema.

    Raises: Conflict when it is newer than this program, or unknown.
    """
    if _one(connection, "SELECT to_regclass('alembic_version')") is None:
        return 0
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    if row is None:
        return 0
    if not chain.is_known(str(row[0])):
        raise Conflict(chain.refusal(location, str(row[0])))
    return int(row[0])


def _one(connection: "psycopg.Connection[Any]", query: str) -> Any:
    row = connection.execute(query).fetchone()
    return row[0] if row else None


def _problems(core: "sa.Connection") -> list[str]:
    from perdure.store.schema.verify import schema_problems

    if version_of(raw(core), CHAIN, "the database") < CHAIN.head:
        return []  # an older schema is not damage
    unchecked = core.exec_driver_sql(
        "SELECT conname FROM pg_constraint WHERE NOT convalidated AND connamespace = current_schema()::regnamespace"
    )
    found = [f"the constraint {name} was never checked against its rows" for (name,) in unchecked]
    invalid = core.exec_driver_sql(
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace"
    )
    found += [f"the index {name} is not valid" for (name,) in invalid]
    return found + schema_problems(core)
