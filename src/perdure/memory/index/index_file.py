"""The file of a derived index: opened, judged by what its last writer noted, and asked for single records.

After each commit the file gets a time stamp that the commit has noted: when somebody else has changed a byte, the two
differ.
"""

import os
import stat
import time
import weakref
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeVar

from perdure.memory.index.header import Noted
from perdure.memory.index.index_db import Database
from perdure.memory.index.rows import Held, Unusable
from perdure.memory.paths import Places

T = TypeVar("T")

PAUSE_S = 0.005
WAIT_S = 0.05
_RECENT_NS = 1_000_000_000
"""A file that was written longer ago than this is not being written now: it is damaged."""


class Keys:
    """Finds by dedupe key and by id in the file, as far as it goes; see `KeyIndex`. Used under the lock of the log."""

    def __init__(self, places: Places) -> None:
        self._file = IndexFile(places.index)
        _keys.add(self)

    def covered(self, fd: int) -> int | None:
        """See `KeyIndex.covered`."""
        try:
            noted = self._file.usable(fd, wait_s=WAIT_S)
        except (Unusable, OSError):
            self._file.close()
            return None
        return noted.upto if noted is not None else None

    def first_with(self, keys: Collection[bytes], since_ms: int) -> Mapping[bytes, str] | None:
        """See `KeyIndex.first_with`."""
        return self._ask(lambda database: database.first_with(keys, since_ms))

    def holders(self, names: Collection[str]) -> Mapping[str, Held] | None:
        """See `IdIndex.holders`."""
        return self._ask(lambda database: database.holders(names))

    def close(self) -> None:
        """Close the file; it may be used again."""
        self._file.close()

    def forget(self) -> None:
        """Start anew in a child process."""
        self._file.forget()

    def _ask(self, ask: Callable[[Database], T]) -> T | None:
        """Return what the file says, if nobody has written it meanwhile; None when it cannot be asked now."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                with self._file.database.still():
                    noted = self._file.database.noted()
                    answer = ask(self._file.database)
                    if self._file.is_as(noted):
                        return answer
            except Unusable:
                self._file.close()
                return None
            if time.monotonic() > deadline:
                return None
            time.sleep(PAUSE_S)  # its writer has not set the time of the file yet, or it is damaged


class IndexFile:
    """The index in its file, opened again when another file has taken its place."""

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

    def usable(self, fd: int, *, wait_s: float = 0) -> Noted | None:
        """Return what the file notes; None when it is missing, of another log, or not as its last writer left it.

        A file that is being written is looked at again for a while.

        Raises: Unusable
        """
        deadline = time.monotonic() + wait_s
        while (there := self._opened()) is not None:
            noted = self.database.noted()
            if noted.stamp == there.st_mtime_ns:
                return noted if noted.fits(fd) else None
            is_recent = time.time_ns() - there.st_mtime_ns < _RECENT_NS
            if not is_recent or time.monotonic() > deadline:
                break
            time.sleep(PAUSE_S)
        return None

    def is_as(self, noted: Noted) -> bool:
        """Tell whether the file is still the one that noted this, and nobody has written it since.

        Asked after a look while no writer can commit, it tells that nothing was damaged under the look.
        """
        try:
            there = os.stat(self._path)
        except OSError:
            return False
        return self._identity == (there.st_dev, there.st_ino) and there.st_mtime_ns == noted.stamp

    def size(self) -> int:
        """Return the size of the file; 0 when somebody has removed it."""
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return 0

    def distrust(self) -> None:
        """Treat the file that is open as broken from now on."""
        self._distrusted = self._identity

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def trust(self) -> None:
        """Judge the file by what it is: it was made anew."""
        self._distrusted = (0, 0)

    def forget(self) -> None:
        if self._database is not None:
            ABANDONED.append(self._database)
            self._database = None

    def _opened(self) -> os.stat_result | None:
        while True:
            try:
                there = os.stat(self._path)
            except FileNotFoundError:
                self.close()
                return None
            if not stat.S_ISREG(there.st_mode):
                raise Unusable("it is not a file", is_broken=False)
            if self._distrusted == (there.st_dev, there.st_ino):
                raise Unusable("it was found to be wrong", is_broken=True)
            if self._database is not None and self._identity == (there.st_dev, there.st_ino):
                return there
            self.close()
            self._database, self._identity = Database.open(self._path), (there.st_dev, there.st_ino)


_keys: "weakref.WeakSet[Keys]" = weakref.WeakSet()
ABANDONED: list[Database] = []
"""What a child process got from its parent and must neither use nor close."""


def _after_fork_in_child() -> None:
    for keys in list(_keys):
        keys.forget()


os.register_at_fork(after_in_child=_after_fork_in_child)
