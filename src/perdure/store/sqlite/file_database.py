"""The adapter for a SQLite file: one thread writes, a few read, and the lock file is held around every write."""

import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from perdure import failpoints
from perdure.errors import Damaged, PerdureError, Unavailable
from perdure.settings import ensure_folder
from perdure.store.database import Health
from perdure.store.migrations import CHAIN, Chain
from perdure.store.sqlite import faults, files
from perdure.store.sqlite.checkpoint import CheckpointPlan
from perdure.store.sqlite.connection import connect, engine_over, pragma, reading_engine, refuse_when_over
from perdure.store.sqlite.facts import health_of, problems_of
from perdure.store.sqlite.lockfile import LockFile
from perdure.store.threads import Threads

if TYPE_CHECKING:
    import sqlalchemy as sa

    from perdure.store.transaction import Transaction

READERS = 4
_BUSY_AT_CLOSE_MS = 100
_PATIENCE_S = 0.5
"""How long one who only looks waits for one who writes."""

T = TypeVar("T")
log = logging.getLogger(__name__)


class SqliteFileDatabase:
    """A SQLite database in a file. See Database."""

    def __init__(self, path: Path, *, debug: bool, chain: Chain) -> None:
        self._path = path
        self._chain = chain
        self._debug = debug
        self._lock = LockFile(files.lock_path(path))
        self._wal, _ = files.side_paths(path)
        self._plan = CheckpointPlan()
        self._writer = Threads("perdure-writer", 1)
        self._readers = Threads("perdure-reader", READERS)
        self._looking: sqlite3.Connection | None = None
        self._connection: sqlite3.Connection | None = None
        self._writing: sa.Engine | None = None
        self._written_file = _NO_FILE
        self._has_written = False
        self._reading: sa.Engine | None = None
        self._read_file = _NO_FILE
        self._making_engine = threading.Lock()

    @classmethod
    async def open(cls, path: Path, *, migrate: bool, debug: bool, chain: Chain = CHAIN) -> Self:
        """Open a file, which is made or migrated first where that is needed."""
        database = cls(path, debug=debug, chain=chain)
        try:
            await database._writer.run(database._open, migrate)
        except BaseException:
            database._writer.post(database._abandon)  # after what still runs there, when it was we who were cancelled
            database._writer.stop()
            raise
        return database

    async def write(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.write."""
        return await self._writer.run(self._write, fn)

    async def read(self, fn: "Callable[[Transaction], T]") -> T:
        """See Database.read."""
        from perdure.store.transaction import run_in

        return await self._readers.run(self._read, lambda core: run_in(core, fn))

    async def health(self) -> Health:
        """See Database.health."""
        return await self._writer.run(self._health)

    async def verify(self) -> list[str]:
        """See Database.verify."""
        try:
            return await self._readers.run(self._read, problems_of)
        except Damaged as error:
            return [error.detail]

    async def backup(self, path: Path) -> None:
        """See Database.backup."""
        await self._readers.run(files.copy_database, self._path, path)

    async def close(self) -> None:
        """See Database.close."""
        await self._writer.run(self._close)
        self._writer.stop()

    def _open(self, migrate: bool) -> None:
        """Make the file ready, and open the writing connection.

        Somebody who holds the lock for long has the file open, so it is there; when it is also current, nothing has to
        be done to it and there is nothing to wait for; the first write opens the connection then.
        """
        ensure_folder(self._path.parent)
        files.refuse_strangers(self._path)
        try:
            self._lock.acquire(_PATIENCE_S)
        except Unavailable:
            if self._is_current():
                return
            self._lock.acquire()
        try:
            files.prepare(self._path, self._lock, self._chain, migrate=migrate)
            self._connect()
        finally:
            self._lock.release()

    def _abandon(self) -> None:
        """Let go of a file that could not be opened."""
        with suppress(PerdureError):
            self._lock.acquire(_PATIENCE_S)
            self._disconnect()
            self._lock.release()
        self._lock.close()

    def _is_current(self) -> bool:
        with faults.translated(self._path):
            return int(pragma(self._looking_connection(), "user_version")) == self._chain.head

    def _looking_connection(self) -> sqlite3.Connection:
        """Return a connection for looking without SQLAlchemy; it stays open until close, which holds the lock."""
        if self._looking is None:
            self._looking = connect(self._path, is_reader=True)
        return self._looking

    def _connect(self) -> sqlite3.Connection:
        """Open the writing connection. The caller holds the lock, so the file cannot change meanwhile."""
        with faults.translated(self._path):
            self._connection = files.open_for_writing(self._path)
        self._written_file = self._file_now()
        return self._connection

    def _disconnect(self) -> None:
        """Close all connections. The caller holds the lock, because the last one to close checkpoints."""
        if self._reading is not None:
            self._reading.dispose()
            self._reading = None
        for connection in (self._looking, self._connection):
            if connection is not None:
                connection.close()
        self._looking = self._connection = self._writing = None

    def _write(self, fn: "Callable[[Transaction], T]") -> T:
        with self._lock:
            engine = self._writing_engine()
            self._has_written = True
            try:
                result = self._commit(engine, fn)
            except PerdureError as error:
                if faults.is_io_error(error):
                    self._disconnect()  # the next write opens it anew; this one is never retried
                raise
            self._checkpoint_if_due()
            return result

    def _commit(self, engine: "sa.Engine", fn: "Callable[[Transaction], T]") -> T:
        from perdure.store.transaction import run_in

        with faults.translated_from_core(self._path), engine.begin() as core:
            result = run_in(core, fn, refuse_when_over)
            failpoints.hit("store.commit.before")
        failpoints.hit("store.commit.after")
        return result

    def _writing_engine(self) -> "sa.Engine":
        connection = self._connection
        if connection is None or self._written_file != self._file_now():
            self._disconnect()
            files.recognise(self._path, self._chain)
            connection = self._connect()
        if self._writing is None:
            self._writing = self._observed(engine_over(connection))
        return self._writing

    def _checkpoint_if_due(self) -> None:
        """Checkpoint after about 1,000 pages. What was committed stays so, whatever happens here."""
        if self._connection is None or not self._plan.is_due(self._wal):
            return
        try:
            _, pages, _ = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            log.warning("a checkpoint of %s failed: %s", self._path, error)
            if faults.is_io_error(error):
                self._disconnect()
        else:
            self._plan.done(self._wal, pages)

    def _health(self) -> Health:
        with faults.translated(self._path):
            return health_of(self._connection or self._looking_connection(), str(self._path))

    def _close(self) -> None:
        self._readers.stop(wait=True)
        try:
            self._lock.acquire(None if self._has_written else _PATIENCE_S)
        except PerdureError as error:
            # Closing outside the lock could checkpoint beside another process; not closing cannot.
            log.warning("%s was left open: %s", self._path, error)
            return
        try:
            if self._connection is not None:
                with suppress(sqlite3.Error):
                    self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_AT_CLOSE_MS}")
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._disconnect()
        finally:
            self._lock.release()
            self._lock.close()

    def _read(self, fn: "Callable[[sa.Connection], T]") -> T:
        with faults.translated_from_core(self._path), self._reading_engine().begin() as core:
            return fn(core)

    def _reading_engine(self) -> "sa.Engine":
        engine = self._reading
        if engine is not None and self._read_file == self._file_now():
            return engine
        if engine is None:
            return self._new_reading_engine()
        with self._lock:
            if self._read_file != self._file_now():
                engine.dispose()
                return self._new_reading_engine()
            return self._reading or self._new_reading_engine()

    def _new_reading_engine(self) -> "sa.Engine":
        with self._making_engine:
            if self._reading is None or self._read_file != self._file_now():
                self._read_file = self._file_now()
                self._reading = self._observed(reading_engine(self._path, READERS))
            return self._reading

    def _observed(self, engine: "sa.Engine") -> "sa.Engine":
        from perdure.store.transaction import log_statements

        if self._debug:
            log_statements(engine)
        return engine

    def _file_now(self) -> "_FileId":
        """Say which file has our name now: a connection to one that was moved aside writes what nobody sees.

        Raises: Damaged when there is none.
        """
        try:
            status = os.stat(self._path)
        except OSError as error:
            raise Damaged(f"{self._path} was moved or removed while it was in use; nothing was written.") from error
        return status.st_dev, status.st_ino


_FileId = tuple[int, int]
_NO_FILE: _FileId = (0, 0)
