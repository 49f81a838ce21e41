"""Writing a log: the order of steps in which nothing acknowledged is lost, and nothing is glued to a torn line."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from perdure.errors import Damaged
from perdure.failpoints import hit
from perdure.memory.files import flush_folder, open_file, told
from perdure.memory.lines import line_of
from perdure.memory.lock import WAIT_S, LogLock
from perdure.memory.places import Places
from perdure.memory.record import plain

T = TypeVar("T")


def append_record(path: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    """Store one record as it is given; it is on stable storage when the call returns.

    Raises: Invalid when it has no JSON; Unavailable; Denied; Damaged when a flush fails, or has failed before.
    """
    log = Log(Places(Path(path)))
    try:
        log.append([line_of(plain(record), now_ms())])
    finally:
        log.close()


def now_ms() -> int:
    """Return the milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Log:
    """A log that is open for writing; threads may share it."""

    def __init__(self, places: Places, *, wait_s: float = WAIT_S) -> None:
        self.places = places
        self._lock = LogLock(places.lock, wait_s)
        self._file: _File | None = None

    def append(self, lines: Sequence[bytes]) -> None:
        """Write lines in one go; they are durable when this returns.

        Raises: Unavailable; Denied; Damaged when the flush fails: nobody may append then until the log was verified.
        """
        self.append_chosen(lambda _fd, _size: lines)

    def append_chosen(self, choose: Callable[[int, int], Sequence[bytes]]) -> None:
        """Write the lines that are chosen by a look into the locked log, given its descriptor and its size.

        When this returns, the lines are durable, and so is all that the look has seen.

        Raises: what `append` raises.
        """
        with self._lock:
            file, size = self._current()
            if lines := choose(file.fd, size):
                self._write(file.fd, size, lines)
        self._flush(file.fd)

    def hold(self, work: Callable[[int, int], T], *, after_failure: bool = False) -> T:
        """Do something while nobody else writes, with the descriptor and the size of the log.

        Raises: what `append` raises.
        """
        with self._lock:
            file, size = self._current(after_failure=after_failure)
            return work(file.fd, size)

    def close(self) -> None:
        """Close all files; the log may be used again."""
        self._file = None
        self._lock.close()

    def _current(self, *, after_failure: bool = False) -> tuple["_File", int]:
        """Return the file that has the name of the log now, which compaction may have swapped, and its size."""
        if not after_failure:
            self._refuse_after_failure()
        with told(self.places.log):
            try:
                there = os.stat(self.places.log)
            except FileNotFoundError:
                self._file = self._create()
                there = os.fstat(self._file.fd)
            if self._file is None or self._file.identity != (there.st_dev, there.st_ino):
                self._file = _File(open_file(self.places.log, os.O_RDWR | os.O_APPEND))
                there = os.fstat(self._file.fd)
        return self._file, there.st_size

    def _create(self) -> "_File":
        file = _File(open_file(self.places.log, os.O_RDWR | os.O_APPEND | os.O_CREAT))
        os.fsync(file.fd)
        flush_folder(self.places.log.parent)
        return file

    def _write(self, fd: int, size: int, lines: Sequence[bytes]) -> None:
        is_torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        rest = memoryview(b"".join([b"\n", *lines] if is_torn else lines))
        hit("memory.write.before")
        try:
            while rest:
                rest = rest[_write_some(fd, rest) :]
            hit("memory.write.after")
        except BaseException as error:
            with told(self.places.log):
                os.ftruncate(fd, size)
                if isinstance(error, OSError):
                    raise
            raise

    def _flush(self, fd: int) -> None:
        try:
            hit("memory.flush.before")
            os.fdatasync(fd)
            hit("memory.flush.after")
        except OSError as error:
            self._mark_failure(error)
            raise Damaged(
                f"The disk failed while {self.places.log} was flushed ({error.strerror}); the record may not be stored,"
                " and nobody can append until `perdure memory verify --clear` has read and rewritten the log."
            ) from error

    def _mark_failure(self, error: OSError) -> None:
        text = f"{error.strerror} at {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}, process {os.getpid()}\n"
        with told(self.places.failed):
            fd = open_file(self.places.failed, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                os.write(fd, text.encode())
                os.fsync(fd)
            finally:
                os.close(fd)
            flush_folder(self.places.failed.parent)

    def _refuse_after_failure(self) -> None:
        if self.places.failed.exists():
            raise Damaged(
                f"A flush of {self.places.log} has failed ({self.places.failed} tells when); nothing was stored."
                " `perdure memory verify --clear` reads the log from disk, rewrites it and allows appends again."
            )


class _File:
    """An open file that stays open for as long as somebody uses it, also when another one takes its place."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        found = os.fstat(fd)
        self.identity = (found.st_dev, found.st_ino)

    def __del__(self) -> None:
        os.close(self.fd)


def _write_some(fd: int, data: memoryview) -> int:
    hit("memory.write.some")
    return os.write(fd, data)
