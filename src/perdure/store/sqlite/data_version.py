"""Detects commits of other connections to a SQLite file by its `data_version`, on a separate connection."""

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

from perdure.errors import PerdureError
from perdure.filelock.lock import FileLock
from perdure.store.commit_watch import Stop
from perdure.store.sqlite import faults
from perdure.store.sqlite.connection import NO_FILE, connect, file_now, pragma

POLL_S = 0.1
log = logging.getLogger(__name__)


class DataVersion:
    """Watches the commit counter of SQLite; for one thread at a time.

    A file that was replaced or could not be read is reopened.
    """

    def __init__(self, path: Path, lock: FileLock) -> None:
        self._path = path
        self._lock = lock
        self._is_stale = False

    def renew(self) -> None:
        """Reopen the connection at the next use, after an I/O error of another connection."""
        self._is_stale = True

    def watch(self, stop: Stop, notify: Callable[[], None]) -> None:
        """Call a function when another connection has committed, or the file was replaced; see CommitWatch."""
        reader = _Reader(self._path, self._lock)
        is_read = True
        try:
            while not stop.wait(POLL_S):
                was_read, is_read = is_read, True
                if self._is_stale:
                    self._is_stale = False
                    reader.close()
                try:
                    has_changed = reader.has_changed()
                except PerdureError as error:
                    is_read, has_changed = False, was_read  # notify once, so that the listener finds the error
                    log.debug("%s", error.detail)
                    reader.close()
                if has_changed:
                    notify()
        finally:
            reader.close()


class _Reader:
    def __init__(self, path: Path, lock: FileLock) -> None:
        self._path = path
        self._lock = lock
        self._connection: sqlite3.Connection | None = None
        self._file = NO_FILE
        self._version: int | str = 0

    def has_changed(self) -> bool:
        """Return whether another connection has committed since the last call; True after reopening the file.

        Raises: Damaged when the file does not exist; translated errors of SQLite.
        """
        with faults.translated(self._path):
            file = file_now(self._path)
            if self._connection is not None and self._file != file:
                self.close()
            if self._connection is None:
                self._connection, self._file = connect(self._path, is_reader=True), file
                self._version = pragma(self._connection, "data_version")
                return True
            before, self._version = self._version, pragma(self._connection, "data_version")
            return self._version != before

    def close(self) -> None:
        """Close the connection, under the lock file, because the last one to close checkpoints."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            with self._lock:
                connection.close()
        except PerdureError as error:
            log.warning("could not close %s: %s", self._path, error)
