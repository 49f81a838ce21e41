"""The adapter for a SQLite file: one thread writes, a few read, and the lock file is held around every write."""

import logging
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from perdure.errors import Damaged, PerdureError, Unavailable
from perdure.filelock.lock import FileLock
from perdure.files.folders import ensure_folder
from perdure.store.database import Connected, Health
from perdure.store.executor import Threads
from perdure.store.group_commit import Groups, Outcomes, do_items
from perdure.store.migrations import CHAIN, Chain
from perdure.store.raw import Item, RawTransaction, Result, Work
from perdure.store.sqlite import faults, files
from perdure.store.sqlite.connection import pragma
from perdure.store.sqlite.facts import health_of, problems_of
from perdure.store.sqlite.readers import Readers
from perdure.store.sqlite.users import processes_with
from perdure.store.sqlite.writer import Writer

if TYPE_CHECKING:
    from perdure.store.transaction import Transaction

READERS = 4
_PATIENCE_S = 0.5
"""How long one who only looks waits for one who writes."""

T = TypeVar("T")
log = logging.getLogger(__name__)


class SqliteFileDatabase:
    """A SQLite database in a file. See Database."""

    def __init__(self, path: Path, *, debug: bool, chain: Chain) -> None:
        self._path = path
        self._chain = chain
        self._lock = FileLock(files.lock_path(path))
        self._writer = Writer(path, chain, is_logged=debug)
        self._readers = Readers(path, self._lock, is_logged=debug)
        self._writing = Threads("perdure-writer", 1)
        self._reading = Threads("perdure-reader", READERS)
        self._groups = Groups(self._writing, self._write_group, self._write_now)
        self._is_checkpoint_posted = False

    @classmethod
    async def open(cls, path: Path, *, migrate: bool, debug: bool, chain: Chain = CHAIN) -> Self:
        """Open a file, which is made or migrated first where that is needed."""
        database = cls(path, debug=debug, chain=chain)
        try:
            await database._writing.run(database._open, migrate)
        except PerdureError:
            await database._writing.finish(database._abandon)
            raise
        except BaseException:
            database._writing.post(database._abandon)  # after what still runs there: we were cancelled
            database._writing.stop()
            raise
        return database

    async def write(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.write."""
        self._groups.seal()
        return await self._writing.run(self._write, lambda: self._writer.write_core(fn))

    async def write_raw(self, fn: Callable[[RawTransaction], T], *, flush: bool = True) -> T:
        """See RawDatabase.write_raw."""
        self._groups.seal()
        return await self._writing.run(self._write, lambda: self._writer.write_raw(fn, flush=flush))

    async def group(self, work: Work[Item, Result], item: Item, *, is_only: bool = False) -> Result:
        """See RawDatabase.group."""
        return await self._groups.add(work, item, is_only=is_only)

    async def read(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.read."""
        from perdure.store.transaction import run_in

        return await self._reading.run(self._readers.read_core, lambda core: run_in(core, fn))

    async def read_raw(self, fn: Callable[[RawTransaction], T]) -> T:
        """See RawDatabase.read_raw."""
        return await self._reading.run(self._readers.read_raw, fn)

    async def health(self) -> Health:
        """See Database.health."""
        return await self._writing.run(
            self._readers.look, lambda connection: health_of(connection, location=str(self._path))
        )

    async def connected(self) -> list[Connected]:
        """See Database.connected."""
        host = socket.gethostname()
        return [Connected(host, pid) for pid in await self._reading.run(processes_with, self._path)]

    async def verify(self) -> list[str]:
        """See Database.verify."""
        try:
            return await self._reading.run(self._readers.read_core, problems_of)
        except Damaged as error:
            return [error.detail]

    async def backup(self, path: Path) -> None:
        """See Database.backup."""
        await self._reading.run(files.copy_database, self._path, path)

    async def close(self) -> None:
        """See Database.close."""
        self._groups.seal()
        await self._writing.finish(self._close)

    def _open(self, migrate: bool) -> None:
        """Make the file ready, and open the writing connection.

        When somebody holds the lock for long while the file is there and current, nothing has to be done to it, and
        there is nothing to wait for; the first write opens the connection then. Who holds it may be making the file.
        """
        ensure_folder(self._path.parent)
        files.refuse_strangers(self._path)
        try:
            self._lock.acquire(_PATIENCE_S)
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
        return self._readers.look(lambda connection: pragma(connection, "user_version"))

    def _abandon(self) -> None:
        """Let go of a file that could not be opened."""
        with suppress(PerdureError):
            self._lock.acquire(_PATIENCE_S)
            self._disconnect()
            self._lock.release()
        self._lock.close()

    def _disconnect(self) -> None:
        """Close all connections. The caller holds the lock, because the last one to close checkpoints."""
        self._readers.close()
        self._writer.disconnect()

    def _write(self, write: Callable[[], T]) -> T:
        with self._lock:
            return self._written(write)

    def _write_group(self, work: Work[Any, Any], items: Sequence[Any]) -> Outcomes:
        with self._lock:
            return do_items(work, items, self._commit_group)

    def _write_now(self, work: Work[Any, Any], item: Any) -> Outcomes | None:
        """Write an item on the thread of the caller; None when that would mean to wait for somebody."""
        if not self._lock.try_acquire():
            return None
        try:
            return do_items(work, [item], self._commit_now) if self._writer.is_ready else None
        finally:
            self._lock.release()

    def _commit_group(self, fn: Callable[[RawTransaction], T], _is_single: bool) -> T:
        return self._written(lambda: self._writer.write_group(fn))

    def _commit_now(self, fn: Callable[[RawTransaction], T], _is_single: bool) -> T:
        return self._written(lambda: self._writer.write_group(fn, is_ready=True))

    def _written(self, write: Callable[[], T]) -> T:
        """Write, and see to it that the log is moved back now and then, always on the writer's thread."""
        try:
            result = write()
        except PerdureError as error:
            if faults.is_io_error(error):
                self._disconnect()  # the next write opens it anew; this one is never retried
            raise
        if self._writer.is_checkpoint_due and not self._is_checkpoint_posted:
            self._is_checkpoint_posted = True
            self._writing.post(self._checkpoint)
        return result

    def _checkpoint(self) -> None:
        self._is_checkpoint_posted = False
        try:
            with self._lock:
                self._writer.checkpoint()
        except PerdureError as error:
            log.warning("no checkpoint of %s: %s", self._path, error)

    def _close(self) -> None:
        self._reading.stop(wait=True)
        try:
            self._lock.acquire(None if self._writer.has_written else _PATIENCE_S)
        except PerdureError as error:
            # Closing outside the lock could checkpoint beside another process; not closing cannot.
            log.warning("%s was left open: %s", self._path, error)
            return
        try:
            self._writer.checkpoint_before_close()
            self._disconnect()
        finally:
            self._lock.release()
            self._lock.close()
