"""Appends to a log: no acknowledged record is lost, and no record is joined to a torn line."""

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
from perdure.memory.log.files import OpenFile, identity, open_file, read_at, translate_os_errors
from perdure.memory.log.lock import WAIT_S, LogLock
from perdure.memory.paths import MemoryFiles

_not_flushed: dict[Path, tuple[int, int]] = {}
"""Logs whose flush failed when the failure could not be recorded in a file either; known to this process only."""


def now_ms() -> int:
    """Return the milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class NewLog(Protocol):
    """A file that will replace a log."""

    path: Path
    fd: int


class Log:
    """A log that is open for writing; threads may share it."""

    def __init__(self, files: MemoryFiles, *, wait_s: float = WAIT_S) -> None:
        self.files = files
        self._lock = LogLock(files.lock, wait_s)
        self._file: OpenFile | None = None

    def append(self, lines: Sequence[bytes]) -> None:
        """Append lines with one write; they are durable when this returns.

        Raises: Unavailable; Denied; Damaged when the flush fails: appends are rejected until the log was verified.
        """
        self.append_chosen(lambda _fd, _size: lines)

    def append_chosen(self, choose: Callable[[int, int], Sequence[bytes]]) -> None:
        """Append the lines that `choose` returns under the lock, given the descriptor and the size of the log.

        When this returns, the lines are durable, and so is everything that `choose` has read. The flush runs after
        the lock is released: that is six times as fast with eight processes, and a reader may see a record shortly
        before it is durable, but no caller gets an answer before.

        Raises: as `append`; CallerGone when the caller had given up before the lock was taken.
        """
        with ExitStack() as stack:
            with self._lock:
                stack.enter_context(writing())
                file, size = self._current()
                if lines := choose(file.fd, size):
                    self._write(file.fd, size, b"".join(lines))
            self._flush(file)

    def snapshot(self) -> tuple[OpenFile, int]:
        """Return the file and its size under the lock: the lines up to that size never change.

        Raises: as `append`.
        """
        with self._lock:
            return self._current()

    def replace(self, new: NewLog, finish: Callable[[int, int], None], *, after_failure: bool = False) -> None:
        """Replace the log by a new file, under the lock.

        `finish` gets the descriptor and the size of the log; when it returns, the new file is complete and durable.

        Raises: as `append`; Conflict when the lock file was removed, so that others may write, or the new file was
        removed, so that its name may belong to another file.
        """
        with self._lock, writing():
            file, size = self._current(after_failure=after_failure)
            finish(file.fd, size)
            if not self._lock.is_in_place():
                raise Conflict(f"{self.files.lock} was removed or replaced; {self.files.log} was not changed.")
            self._lock.mark()
            with translate_os_errors(self.files.log):
                failpoints.hit("memory.swap.before")
                status = _lstat(new.path)
                if status is None or identity(status) != identity(os.fstat(new.fd)):
                    raise Conflict(f"{new.path} was removed or replaced; {self.files.log} was not changed.")
                new.path.rename(self.files.log)
            self._flush_names()

    def has_failed(self) -> bool:
        """Return whether a flush has failed, so that appends are rejected."""
        with translate_os_errors(self.files.failed):
            if _lstat(self.files.failed) is not None:
                return True
            status = _lstat(self.files.log) if self.files.log in _not_flushed else None
        return status is not None and identity(status) == _not_flushed[self.files.log]

    def clear_failure(self) -> None:
        """Allow appends again, after the log was read from disk and rewritten."""
        _not_flushed.pop(self.files.log, None)
        failpoints.hit("memory.clear.before")
        with translate_os_errors(self.files.failed):
            self.files.failed.unlink(missing_ok=True)
            fsync_folder(self.files.failed.parent)
        failpoints.hit("memory.clear.after")

    def close(self) -> None:
        """Close all files; they are opened again when needed."""
        self._file = None
        self._lock.close()

    def _current(self, *, after_failure: bool = False) -> tuple[OpenFile, int]:
        """Return the file that the log's name refers to now, which a compaction may have replaced, and its size."""
        if not after_failure and self.has_failed():
            raise Damaged(
                f"A flush of {self.files.log} has failed ({self.files.failed} says when); nothing was stored."
                " `perdure memory verify --clear` reads the log from disk, rewrites it and allows appends again."
            )
        if self._lock.is_marked:
            self._flush_names()
        with translate_os_errors(self.files.log):
            status = _lstat(self.files.log)
        if status is None or self._file is None or self._file.identity != identity(status):
            self._file = self._open(is_new=status is None)
            status = os.fstat(self._file.fd)
        size = status.st_size
        return self._file, size if after_failure else self._end_torn_line(self._file.fd, size)

    def _open(self, *, is_new: bool) -> OpenFile:
        if is_new:
            self._lock.mark()
        file = OpenFile(open_file(self.files.log, os.O_RDWR | os.O_APPEND | os.O_CREAT))
        if is_new:
            self._flush_names()
        return file

    def _flush_names(self) -> None:
        """Make the name of the log durable; after a crash before that, the mark tells the next writer to do it."""
        try:
            failpoints.hit("memory.names.before")
            fsync_folder(self.files.log.parent)
            failpoints.hit("memory.names.after")
        except OSError as error:
            raise self._flush_failure(error) from error
        self._lock.unmark()

    def _end_torn_line(self, fd: int, size: int) -> int:
        """End a torn line, whose writer died, so that the next record begins on a line of its own."""
        if size == 0 or read_at(fd, self.files.log, size - 1, 1) == b"\n":
            return size
        self._write(fd, size, b"\n")
        return size + 1

    def _write(self, fd: int, size: int, data: bytes) -> None:
        rest = memoryview(data)
        with translate_os_errors(self.files.log):
            failpoints.hit("memory.write.before")
            try:
                while rest:
                    failpoints.hit("memory.write.some")
                    rest = rest[os.write(fd, rest) :]
                failpoints.hit("memory.write.after")
            except BaseException:
                if self._lock.is_in_place():  # else another process may have written after it
                    os.ftruncate(fd, size)
                raise

    def _flush(self, file: OpenFile) -> None:
        try:
            failpoints.hit("memory.flush.before")
            fsync_file(file.fd, only_data=True)
            failpoints.hit("memory.flush.after")
        except OSError as error:
            raise self._flush_failure(error, file) from error

    def _flush_failure(self, error: OSError, file: OpenFile | None = None) -> Damaged:
        """Stop all appends, and return the error for the caller."""
        unrecorded = ""
        try:
            self._record_failure(error)
        except (PerdureError, OSError) as failure:
            if file is not None:
                _not_flushed[self.files.log] = file.identity
            unrecorded = f" Other processes do not know of it: {failure}"
        return Damaged(
            f"The disk failed while {self.files.log} was flushed ({error.strerror}); the record may not be stored, and"
            f" appends are rejected until `perdure memory verify --clear` has read and rewritten the log.{unrecorded}"
        )

    def _record_failure(self, error: OSError) -> None:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        failpoints.hit("memory.mark.before")
        fd = open_file(self.files.failed, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with suppress(OSError):  # its existence is enough for running processes; a reboot rereads the disk anyway
            write_all(fd, f"{error.strerror} at {moment}, process {os.getpid()}\n".encode())
            fsync_file(fd)
            fsync_folder(self.files.failed.parent)
        os.close(fd)
        failpoints.hit("memory.mark.after")


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None
