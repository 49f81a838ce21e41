"""The reading connections to a SQLite file: opened on demand, kept, and closed only under the lock file."""

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from perdure.filelock.lock import FileLock
from perdure.store.raw import RawTransaction
from perdure.store.sqlite import faults
from perdure.store.sqlite.connection import FileId, connect, engine_over, file_now, observed, roll_back

if TYPE_CHECKING:
    import sqlalchemy as sa

T = TypeVar("T")


@dataclass(slots=True)
class _Reader:
    """A connection, the identity of its file, and its SQLAlchemy engine, created on demand."""

    connection: sqlite3.Connection
    file: FileId
    generation: int
    engine: "sa.Engine | None" = None


class Readers:
    """A pool of reading connections, one for each concurrent thread; every transaction reads one snapshot."""

    def __init__(self, path: Path, lock: FileLock, *, is_logged: bool) -> None:
        self._path = path
        self._lock = lock
        self._is_logged = is_logged
        self._free: list[_Reader] = []
        self._generation = 0
        self._free_lock = threading.Lock()

    def read_raw(self, fn: Callable[[RawTransaction], T]) -> T:
        """Run a function in one reading transaction on a connection of the driver."""

        def read(reader: _Reader) -> T:
            reader.connection.execute("BEGIN")
            try:
                return fn(RawTransaction(reader.connection, is_logged=self._is_logged))
            finally:
                roll_back(reader.connection)

        with faults.translated(self._path):
            return self._use(read)

    def read_core(self, fn: "Callable[[sa.Connection], T]") -> T:
        """Run a function in one reading transaction on a connection of SQLAlchemy."""

        def read(reader: _Reader) -> T:
            if reader.engine is None:
                engine = engine_over(reader.connection, begin="BEGIN")
                reader.engine = observed(engine, is_logged=self._is_logged)
            with reader.engine.begin() as core:
                return fn(core)

        with faults.translated_from_core(self._path):
            return self._use(read)

    def query(self, fn: Callable[[sqlite3.Connection], T]) -> T:
        """Call a function with a connection, without a transaction."""
        with faults.translated(self._path):
            return self._use(lambda reader: fn(reader.connection))

    def close(self) -> None:
        """Close all connections; one in use is closed when it is returned. The caller holds the lock."""
        with self._free_lock:
            free, self._free = self._free, []
            self._generation += 1
        for reader in free:
            reader.connection.close()

    def _use(self, fn: Callable[[_Reader], T]) -> T:
        reader = self._take()
        is_sound = False
        try:
            result = fn(reader)
            is_sound = True
        except BaseException as error:
            is_sound = not faults.is_io_error(error)
            raise
        finally:
            self._return(reader, is_sound=is_sound)
        return result

    def _take(self) -> _Reader:
        now = file_now(self._path)
        with self._free_lock:
            reader = self._free.pop() if self._free else None
        if reader is not None and reader.file != now:
            with self._lock:
                reader.connection.close()
            reader = None
        return reader or _Reader(connect(self._path, is_reader=True), now, self._generation)

    def _return(self, reader: _Reader, *, is_sound: bool) -> None:
        with self._free_lock:
            is_wanted = is_sound and reader.generation == self._generation
            if is_wanted:
                self._free.append(reader)
        if not is_wanted:
            with self._lock:
                reader.connection.close()
