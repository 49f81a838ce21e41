"""The file of a derived index: opened, validated by its header, and queried for single records.

After each commit the modification time of the file is set to the stamp in its header. When another program changes a
byte, the two differ.
"""

import os
import stat
import time
import weakref
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeVar

from perdure.memory.index.header import IndexHeader
from perdure.memory.index.index_db import Database
from perdure.memory.index.rows import RecordLocation, Unusable
from perdure.memory.paths import MemoryFiles

T = TypeVar("T")

PAUSE_S = 0.005
WAIT_S = 0.05
_RECENT_NS = 1_000_000_000
"""A file whose stamp differs and that was written longer ago than this is damaged, not being written."""


class IndexLookup:
    """Finds indexed records by dedupe key and by id; see `KeyIndex` and `IdIndex`. Used under the lock of the log."""

    def __init__(self, files: MemoryFiles) -> None:
        self._file = IndexFile(files.index)
        _keys.add(self)

    def covered(self, fd: int) -> int | None:
        """See `KeyIndex.covered`."""
        try:
            header = self._file.usable_header(fd, wait_s=WAIT_S)
        except (Unusable, OSError):
            self._file.close()
            return None
        return header.upto if header is not None else None

    def first_with(self, keys: Collection[bytes], since_ms: int) -> Mapping[bytes, str] | None:
        """See `KeyIndex.first_with`."""
        return self._ask(lambda database: database.first_with(keys, since_ms))

    def locations(self, names: Collection[str]) -> Mapping[str, RecordLocation] | None:
        """See `IdIndex.locations`."""
        return self._ask(lambda database: database.locations(names))

    def close(self) -> None:
        """Close the file; it is opened again when needed."""
        self._file.close()

    def forget(self) -> None:
        """Drop the open connection in a forked child."""
        self._file.forget()

    def _ask(self, ask: Callable[[Database], T]) -> T | None:
        """Return the answer of the file if it did not change meanwhile; None when it is unusable now."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                with self._file.database.read_transaction():
                    header = self._file.database.header()
                    answer = ask(self._file.database)
                    if self._file.is_unchanged_since(header):
                        return answer
            except Unusable:
                self._file.close()
                return None
            if time.monotonic() > deadline:
                return None
            time.sleep(PAUSE_S)  # its writer has not set the stamp yet, or the file is damaged


class IndexFile:
    """The file of an index, opened again when another file has replaced it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: Database | None = None
        self._identity = (0, 0)
        self._distrusted = (0, 0)

    @property
    def database(self) -> Database:
        if self._database is None:
            raise Unusable("it is not open", is_broken=False)
        return self._database

    def usable_header(self, fd: int, *, wait_s: float = 0) -> IndexHeader | None:
        """Return the header; None when the file is missing, belongs to another log, or was changed by another program.

        A file that is being written is checked again until `wait_s` is over.

        Raises: Unusable
        """
        deadline = time.monotonic() + wait_s
        while (status := self._open()) is not None:
            header = self.database.header()
            if header.stamp == status.st_mtime_ns:
                return header if header.matches_log(fd) else None
            is_recent = time.time_ns() - status.st_mtime_ns < _RECENT_NS
            if not is_recent or time.monotonic() > deadline:
                break
            time.sleep(PAUSE_S)
        return None

    def is_unchanged_since(self, header: IndexHeader) -> bool:
        """Return whether the file still has this header and was not written since.

        Called after a query, while no writer can commit, it shows that the query saw no damage.
        """
        try:
            status = os.stat(self._path)
        except OSError:
            return False
        return self._identity == (status.st_dev, status.st_ino) and status.st_mtime_ns == header.stamp

    def size(self) -> int:
        """Return the size of the file; 0 when it was removed."""
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return 0

    def distrust(self) -> None:
        """Treat the open file as broken from now on."""
        self._distrusted = self._identity

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def trust(self) -> None:
        """Trust the file again: it was rebuilt."""
        self._distrusted = (0, 0)

    def forget(self) -> None:
        if self._database is not None:
            ABANDONED.append(self._database)
            self._database = None

    def _open(self) -> os.stat_result | None:
        while True:
            try:
                status = os.stat(self._path)
            except FileNotFoundError:
                self.close()
                return None
            if not stat.S_ISREG(status.st_mode):
                raise Unusable("it is not a file", is_broken=False)
            if self._distrusted == (status.st_dev, status.st_ino):
                raise Unusable("it was found to be damaged", is_broken=True)
            if self._database is not None and self._identity == (status.st_dev, status.st_ino):
                return status
            self.close()
            self._database, self._identity = Database.open(self._path), (status.st_dev, status.st_ino)


_keys: "weakref.WeakSet[IndexLookup]" = weakref.WeakSet()
ABANDONED: list[Database] = []
"""Databases that a forked child inherited and must neither use nor close."""


def _after_fork_in_child() -> None:
    for keys in list(_keys):
        keys.forget()


os.register_at_fork(after_in_child=_after_fork_in_child)
