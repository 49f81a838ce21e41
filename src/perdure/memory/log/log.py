"""Writing a log: the order of steps in which nothing acknowledged is lost, and nothing is glued to a torn line."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

from perdure import failpoints
from perdure.errors import Conflict, Damaged, PerdureError
from perdure.files.fsync import fsync_file, fsync_folder
from perdure.files.opening import write_all
from perdure.memory.callers import writing
from perdure.memory.log.files import OpenFile, identity, open_file, read_at, told
from perdure.memory.log.lock import WAIT_S, LogLock
from perdure.memory.paths import Places

_not_flushed: dict[Path, tuple[int, int]] = {}
"""Logs whose flush failed while not even that could be written down; this process at least knows."""


def now_ms() -> int:
    """Return the milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class NewLog(Protocol):
    """A file that is to take the place of a log."""

    path: Path
    fd: int


class Log:
    """A log that is open for writing; threads may share it."""

    def __init__(self, places: Places, *, wait_s: float = WAIT_S) -> None:
        self.places = places
        self._lock = LogLock(places.lock, wait_s)
        self._file: OpenFile | None = None

    def append(self, lines: Sequence[bytes]) -> None:
        """Write lines in one go; they are durable when this returns.

        Raises: Unavailable; Denied; Damaged when the flush fails: nobody may append then until the log was verified.
        """
        self.append_chosen(lambda _fd, _size: lines)

    def append_chosen(self, choose: Callable[[int, int], Sequence[bytes]]) -> None:
        """Write the lines that are chosen by a look into the locked log, given its descriptor and its size.

        When this returns, the lines are durable, and so is all that the look has seen.

        Raises: what `append` raises; CallerGone when the caller has given up before the lock was taken.
        """
        with ExitStack() as stack:
            with self._lock:
                stack.enter_context(writing())
                file, size = self._current()
                if lines := choose(file.fd, size):
                    self._write(file.fd, size, b"".join(lines))
            self._flush(file)

    def look(self) -> tuple[OpenFile, int]:
        """Return the file as it is when nobody writes, and its size: all before that stays as it is, line by line.

        Raises: what `append` raises.
        """
        with self._lock:
            return self._current()

    def replace(self, new: NewLog, finish: Callable[[int, int], None], *, after_failure: bool = False) -> None:
        """Put a new file in the place of the log while nobody writes.

        `finish` is given the descriptor and the size of the log; when it returns, the new file is complete and durable.

        Raises: what `append` raises; Conflict when the lock was removed, so that others may write in spite of it, or
        the new file was, so that its name may be that of another.
        """
        with self._lock, writing():
            file, size = self._current(after_failure=after_failure)
            finish(file.fd, size)
            if not self._lock.is_in_place():
                raise Conflict(f"{self.places.lock} was removed or replaced; {self.places.log} was left as it is.")
            self._lock.mark()
            with told(self.places.log):
                failpoints.hit("memory.swap.before")
                there = _lstat(new.path)
                if there is None or identity(there) != identity(os.fstat(new.fd)):
                    raise Conflict(f"{new.path} was removed or replaced; {self.places.log} was left as it is.")
                new.path.rename(self.places.log)
            self._flush_names()

    def has_failed(self) -> bool:
        """Tell whether a flush has failed, so that nobody may append."""
        with told(self.places.failed):
            if _lstat(self.places.failed) is not None:
                return True
            there = _lstat(self.places.log) if self.places.log in _not_flushed else None
        return there is not None and identity(there) == _not_flushed[self.places.log]

    def forget_failure(self) -> None:
        """Allow appends again; the log was rewritten and is known to be on the disk."""
        _not_flushed.pop(self.places.log, None)
        failpoints.hit("memory.clear.before")
        with told(self.places.failed):
            self.places.failed.unlink(missing_ok=True)
            fsync_folder(self.places.failed.parent)
        failpoints.hit("memory.clear.after")

    def close(self) -> None:
        """Close all files; the log may be used again."""
        self._file = None
        self._lock.close()

    def _current(self, *, after_failure: bool = False) -> tuple[OpenFile, int]:
        """Return the file that has the name of the log now, which compaction may have swapped, and its size."""
        if not after_failure and self.has_failed():
            raise Damaged(
                f"A flush of {self.places.log} has failed ({self.places.failed} tells when); nothing was stored."
                " `perdure memory verify --clear` reads the log from disk, rewrites it and allows appends again."
            )
        if self._lock.is_marked:
            self._flush_names()
        with told(self.places.log):
            there = _lstat(self.places.log)
        if there is None or self._file is None or self._file.identity != identity(there):
            self._file = self._opened(is_new=there is None)
            there = os.fstat(self._file.fd)
        size = there.st_size
        return self._file, size if after_failure else self._sealed(self._file.fd, size)

    def _opened(self, *, is_new: bool) -> OpenFile:
        if is_new:
            self._lock.mark()
        file = OpenFile(open_file(self.places.log, os.O_RDWR | os.O_APPEND | os.O_CREAT))
        if is_new:
            self._flush_names()
        return file

    def _flush_names(self) -> None:
        """Make the name of the log durable; whoever dies before that leaves the mark to the next one."""
        try:
            failpoints.hit("memory.names.before")
            fsync_folder(self.places.log.parent)
            failpoints.hit("memory.names.after")
        except OSError as error:
            raise self._failed(error) from error
        self._lock.unmark()

    def _sealed(self, fd: int, size: int) -> int:
        """End a line whose writer died in the middle of it, so that it is a line, and nothing is glued to it."""
        if size == 0 or read_at(fd, self.places.log, size - 1, 1) == b"\n":
            return size
        self._write(fd, size, b"\n")
        return size + 1

    def _write(self, fd: int, size: int, data: bytes) -> None:
        rest = memoryview(data)
        with told(self.places.log):
            failpoints.hit("memory.write.before")
            try:
                while rest:
                    failpoints.hit("memory.write.some")
                    rest = rest[os.write(fd, rest) :]
                failpoints.hit("memory.write.after")
            except BaseException:
                if self._lock.is_in_place():  # else somebody else may have written behind it
                    os.ftruncate(fd, size)
                raise

    def _flush(self, file: OpenFile) -> None:
        try:
            failpoints.hit("memory.flush.before")
            fsync_file(file.fd, only_data=True)
            failpoints.hit("memory.flush.after")
        except OSError as error:
            raise self._failed(error, file) from error

    def _failed(self, error: OSError, file: OpenFile | None = None) -> Damaged:
        """Stop all appends, and return the error that says so."""
        told_others = ""
        try:
            self._write_down(error)
        except (PerdureError, OSError) as failure:
            if file is not None:
                _not_flushed[self.places.log] = file.identity
            told_others = f" Other processes do not know of it: {failure}"
        return Damaged(
            f"The disk failed while {self.places.log} was flushed ({error.strerror}); the record may not be stored, and"
            f" nobody can append until `perdure memory verify --clear` has read and rewritten the log.{told_others}"
        )

    def _write_down(self, error: OSError) -> None:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        failpoints.hit("memory.mark.before")
        fd = open_file(self.places.failed, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with suppress(OSError):  # that it is there is enough for all who live; a reboot settles what is on the disk
            write_all(fd, f"{error.strerror} at {moment}, process {os.getpid()}\n".encode())
            fsync_file(fd)
            fsync_folder(self.places.failed.parent)
        os.close(fd)
        failpoints.hit("memory.mark.after")


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None
