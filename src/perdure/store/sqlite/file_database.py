"""The adapter for a SQLite file: one thread writes under the lock file, a few threads read."""

import logging
import socket
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from perdure.errors import Damaged, PerdureError, Unavailable
from perdure.filelock.lock import FileLock
from perdure.files.folders import ensure_folder
from perdure.store.commit_watch import CommitWatch
from perdure.store.database import Connected, Health
from perdure.store.executor import Executor
from perdure.store.group_commit import GroupCommit
from perdure.store.migrations import CHAIN, Chain
from perdure.store.raw import RawTransaction, TransactionKind, WouldWait
from perdure.store.sqlite import faults, files
from perdure.store.sqlite.connection import pragma
from perdure.store.sqlite.data_version import DataVersion
from perdure.store.sqlite.facts import health_of, problems_of
from perdure.store.sqlite.readers import Readers
from perdure.store.sqlite.users import processes_with
from perdure.store.sqlite.writer import Writer, run_transaction

if TYPE_CHECKING:
    from perdure.store.transaction import Transaction

READERS = 4
_LOCK_WAIT_S = 0.5
"""How long operations that need no write wait for the lock file."""

T = TypeVar("T")
log = logging.getLogger(__name__)


class SqliteFileDatabase(GroupCommit):
    """A SQLite database in a file. See Database."""

    def __init__(self, path: Path, *, debug: bool, chain: Chain) -> None:
        super().__init__(Executor("perdure-writer", 1))
        self.transact_inline = partial(self.transact, is_inline=True)
        self._path = path
        self._name = str(path)
        self._chain = chain
        self._lock = FileLock(files.lock_path(path))
        self._writer = Writer(path, chain, is_logged=debug)
        self._readers = Readers(path, self._lock, is_logged=debug)
        self._reader_threads = Executor("perdure-reader", READERS)
        self._is_checkpoint_queued = False
        self._data_version = DataVersion(path, self._lock)
        self._commits = CommitWatch("perdure-commits", self._data_version.watch)

    @classmethod
    async def open(cls, path: Path, *, migrate: bool, debug: bool, chain: Chain = CHAIN) -> Self:
        """Open a file; create or migrate it if necessary."""
        database = cls(path, debug=debug, chain=chain)
        try:
            await database._writer_thread.run(database._open, migrate)
        except PerdureError:
            await database._writer_thread.finish(database._abandon)
            raise
        except BaseException:
            database._writer_thread.submit(database._abandon)  # cancelled: after the work that still runs there
            database._writer_thread.stop()
            raise
        return database

    def transact(self, fn: Callable[[Any], T], kind: TransactionKind, *, is_inline: bool = False) -> T:
        """See GroupCommit.transact. The lock file is held meanwhile.

        Raises: WouldWait with `is_inline`, when the lock is held or the connection is not open.
        """
        if not is_inline:
            self._lock.acquire()
        elif not self._lock.try_acquire():
            raise WouldWait
        try:
            connection = self._writer.connection(kind, is_inline=is_inline)
            if kind.uses_sqlalchemy:
                result = self._writer.transact_core(connection, fn)
            else:
                is_logged, check = self._writer.is_logged, self._writer.refuse_newer
                result = run_transaction(connection, fn, kind, is_logged=is_logged, check=check)
            self._queue_checkpoint_when_due()
        except PerdureError as error:
            self._disconnect_when_broken(error)
            raise
        except sqlite3.Error as error:
            self._disconnect_when_broken(error)
            raise (faults.translate(error, self._name) or error) from error
        finally:
            self._lock.release()
        return result

    def watch(self, notice: Callable[[], None]) -> Callable[[], None]:
        """See RawDatabase.watch."""
        return self._commits.watch(notice)

    def announce(self) -> None:
        """See RawDatabase.announce: processes that watch the file read its `data_version`."""

    async def read(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.read."""
        from perdure.store.transaction import run_in

        return await self._reader_threads.run(self._readers.read_core, lambda core: run_in(core, fn))

    async def read_raw(self, fn: Callable[[RawTransaction], T]) -> T:
        """See RawDatabase.read_raw."""
        return await self._reader_threads.run(self._readers.read_raw, fn)

    async def health(self) -> Health:
        """See Database.health."""
        return await self._writer_thread.run(
            self._readers.query, lambda connection: health_of(connection, location=str(self._path))
        )

    async def connected(self) -> list[Connected]:
        """See Database.connected."""
        host = socket.gethostname()
        return [Connected(host, pid) for pid in await self._reader_threads.run(processes_with, self._path)]

    async def verify(self) -> list[str]:
        """See Database.verify."""
        try:
            return await self._reader_threads.run(self._readers.read_core, problems_of)
        except Damaged as error:
            return [error.detail]

    async def backup(self, path: Path) -> None:
        """See Database.backup."""
        await self._reader_threads.run(files.copy_database, self._path, path)

    async def close(self) -> None:
        """See Database.close."""
        self.seal()
        await self._writer_thread.finish(self._close)

    def _open(self, migrate: bool) -> None:
        """Prepare the file, and open the writing connection.

        If another process holds the lock for long, and the file exists with the current version, no preparation is
        needed, and the first write opens the connection. If the file does not exist, that process may be creating it.
        """
        ensure_folder(self._path.parent)
        files.refuse_strangers(self._path)
        try:
            self._lock.acquire(_LOCK_WAIT_S)
        except Unavailable:
            if self._path.exists() and self._version() == self._chain.head:
                return
            self._lock.acquire()
        try:
            files.prepare(self._path, self._lock, self._chain, migrate=migrate)
            self._writer.connect()
        finally:
            self._lock.release()

    def _version(self) -> int | str:
        return self._readers.query(lambda connection: pragma(connection, "user_version"))

    def _abandon(self) -> None:
        """Close a file that could not be opened completely."""
        with suppress(PerdureError):
            self._lock.acquire(_LOCK_WAIT_S)
            self._disconnect()
            self._lock.release()
        self._lock.close()

    def _disconnect(self) -> None:
        """Close all connections. The caller holds the lock, because the last one to close checkpoints."""
        self._data_version.renew()
        self._readers.close()
        self._writer.disconnect()

    def _disconnect_when_broken(self, error: Exception) -> None:
        """Close the connections after an I/O error: the next write reopens them, and this write is never retried."""
        if faults.is_io_error(error):
            self._disconnect()

    def _queue_checkpoint_when_due(self) -> None:
        """Queue a checkpoint on the thread of the writer if one is due."""
        if self._writer.is_checkpoint_due and not self._is_checkpoint_queued:
            self._is_checkpoint_queued = True
            self._writer_thread.submit(self._checkpoint)

    def _checkpoint(self) -> None:
        self._is_checkpoint_queued = False
        try:
            with self._lock:
                self._writer.checkpoint()
        except PerdureError as error:
            log.warning("checkpoint of %s failed: %s", self._path, error)

    def _close(self) -> None:
        self._reader_threads.stop(wait=True)
        self._commits.close()
        try:
            self._lock.acquire(None if self._writer.has_written else _LOCK_WAIT_S)
        except PerdureError as error:
            # Closing without the lock could run a checkpoint concurrently with another process.
            log.warning("could not close %s: %s", self._path, error)
            return
        try:
            self._writer.checkpoint_before_close()
            self._disconnect()
        finally:
            self._lock.release()
            self._lock.close()
