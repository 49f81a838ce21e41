"""The index of a log: a file that is validated, updated and rebuilt, and a private index of what the file lacks.

A writer of the file holds its lock, so that a deleted and a new file never share a journal. A query trusts the file
only if it is unchanged since its last writer, both before and after the query.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from perdure import failpoints
from perdure.errors import NotFound, PerdureError, Unavailable
from perdure.files.fsync import fsync_path
from perdure.memory.index.header import IndexHeader, empty_header
from perdure.memory.index.index_db import Database
from perdure.memory.index.index_file import ABANDONED, PAUSE_S, WAIT_S, IndexFile
from perdure.memory.index.rows import Unusable
from perdure.memory.index.view import Stale, View
from perdure.memory.log.files import open_file, translate_os_errors
from perdure.memory.log.lines import Line
from perdure.memory.log.lock import LogLock
from perdure.memory.log.reading import lines_of
from perdure.memory.paths import MemoryFiles
from perdure.memory.record import JsonObject

T = TypeVar("T")

_TRIES = 4
_BATCH_BYTES = 1 << 21
_LARGE_BATCH_BYTES = 1 << 26
"""An index that is being built may use large transactions, because no query waits for them."""
_MUCH_BYTES = 1 << 24
_SHORT = 1 << 16
_WAIT_S = 2.0
_STAMP_NS = 2_000_000_000
"""Stamps are whole even seconds, which every file system keeps exactly."""


class _FileChanged(Exception):
    """Another process changed the file during a query."""


class Index:
    """Keeps the index of a log up to date and runs queries on it. Threads may share it."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files
        self._file = IndexFile(files.index)
        self._tail: Database | None = None
        self._lock = LogLock(files.index_lock, wait_s=0)
        self._threads = threading.RLock()
        self._seen = (0, 0, 0)
        _indexes.add(self)

    def use(self, work: Callable[[View], T]) -> T | None:
        """Run a query over all present records of the log; None when there is no log.

        A damaged index changes no answer: it is rebuilt, or replaced by a private one where that is not possible.

        Raises: Unavailable; Denied; Damaged, when the log itself cannot be read.
        """
        with self._threads:
            try:
                fd = open_file(self._files.log, os.O_RDONLY)
            except FileNotFoundError:
                return None
            try:
                return self._use(fd, work)
            finally:
                os.close(fd)

    def _use(self, fd: int, work: Callable[[View], T]) -> T:
        for _ in range(_TRIES):
            try:
                with self._open_parts(fd) as parts:
                    return work(View(parts, fd, self._files.log))
            except _FileChanged:
                continue
            except (Stale, Unusable) as error:
                self._drop_tail()
                if isinstance(error, Stale) or error.is_broken:
                    self._file.distrust()
                self._file.close()  # a connection that has failed may be stuck in a transaction
        try:
            return work(View(self._private_parts(fd), fd, self._files.log, is_lenient=True))
        except Unusable as error:
            raise Unavailable(f"No index can be built for {self._files.log}: {error}.") from error

    def catch_up(self, at_most: int) -> None:
        """Index at most this many more bytes, if the file is usable and its lock is free."""
        with self._threads:
            try:
                fd = open_file(self._files.log, os.O_RDONLY)
            except FileNotFoundError:
                return
            try:
                with self._lock:
                    self._catch_up(fd, at_most=at_most)
            except (Unusable, PerdureError, OSError):
                return  # queries read the rest from the log
            finally:
                os.close(fd)

    def rebuild(self) -> JsonObject:
        """Rebuild the file, and return the number of records and bytes, and the seconds it took.

        Raises: Unavailable; Denied; NotFound when there is no log.
        """
        started_s = time.monotonic()
        with self._threads, LogLock(self._files.index_lock) as lock:
            try:
                fd = open_file(self._files.log, os.O_RDONLY)
            except FileNotFoundError:
                raise NotFound(f"There is no log at {self._files.log}, so there is nothing to index.") from None
            try:
                with translate_os_errors(self._files.index):
                    header, size = self._build(fd), self._file.size()
            except Unusable as error:
                raise Unavailable(f"{self._files.index} cannot be built: {error}.") from error
            finally:
                os.close(fd)
        lock.close()
        return {"records": header.records, "bytes": size, "seconds": round(time.monotonic() - started_s, 3)}

    def state(self) -> JsonObject:
        """Return the state of the file, without changing it."""
        with self._threads:
            try:
                size = self._files.index.stat().st_size
            except OSError:
                return {"state": "missing", "bytes": 0, "offset": 0, "records": 0}
            header, is_behind = self._inspect()
        if header is None:
            return {"state": "unusable", "bytes": size, "offset": 0, "records": 0}
        word = "behind" if is_behind else "current"
        return {"state": word, "bytes": size, "offset": header.upto, "records": header.records}

    def close(self) -> None:
        """Close all files; the index may be used again."""
        with self._threads:
            self._file.close()
            self._drop_tail()
            self._lock.close()

    def hold(self) -> None:
        """Block other threads, before a fork."""
        self._threads.acquire()

    def release(self) -> None:
        """Unblock other threads, after a fork."""
        self._threads.release()

    def forget(self) -> None:
        """Drop the open connections in a forked child: they belong to the parent."""
        self._file.forget()
        if self._tail is not None:
            ABANDONED.append(self._tail)
        self._tail = None
        self._threads = threading.RLock()

    def _inspect(self) -> tuple[IndexHeader | None, bool]:
        try:
            fd = open_file(self._files.log, os.O_RDONLY)
        except (PerdureError, OSError):
            return None, False
        try:
            header = self._file.usable_header(fd, wait_s=WAIT_S)
            return header, header is not None and _has_more(fd, header.upto)
        except (Unusable, OSError):
            return None, False
        finally:
            os.close(fd)

    @contextmanager
    def _open_parts(self, fd: int) -> Iterator[list[Database]]:
        """Open the indexes that cover all of the log together: the file, and a private one for the rest."""
        header = self._header_of_file(fd)
        if header is None:
            parts = self._private_parts(fd)
            self._require_unedited(parts, fd)
            yield parts
            return
        tail = self._private_tail(fd, header.upto, header.next)
        with self._file.database.read_transaction():
            if self._file.database.header() != header:
                raise _FileChanged
            parts = [self._file.database, tail] if tail is not None else [self._file.database]
            self._require_unedited(parts, fd)
            yield parts
            if not self._file.is_unchanged_since(header):
                raise _FileChanged

    def _private_parts(self, fd: int) -> list[Database]:
        tail = self._private_tail(fd, 0, 1)
        return [tail] if tail is not None else []

    def _require_unedited(self, parts: list[Database], fd: int) -> None:
        """Check, each time that the log was written, that no line without a checksum was edited.

        Raises: Stale
        """
        status = os.fstat(fd)
        signature = (status.st_ino, status.st_mtime_ns, status.st_size)
        if signature != self._seen:
            if not all(part.has_unedited_lines(fd) for part in parts):
                raise Stale
            self._seen = signature

    def _header_of_file(self, fd: int) -> IndexHeader | None:
        """Update the file and return its header; it may be behind while another process writes it."""
        deadline = time.monotonic() + _WAIT_S
        header = None
        while header is None and time.monotonic() <= deadline:
            try:
                header = self._valid_header(fd)
                if header is not None and not _has_more(fd, header.upto):
                    return header
                with self._lock:
                    return self._catch_up(fd)
            except Unavailable:
                time.sleep(PAUSE_S if header is None else 0)  # another process is writing it
            except (Unusable, PerdureError, OSError):
                return header
        return header

    def _valid_header(self, fd: int) -> IndexHeader | None:
        """Return the header of the file; None when the file must be rebuilt.

        Raises: Unusable when a rebuild would not help.
        """
        try:
            return self._file.usable_header(fd)
        except Unusable as error:
            if error.is_broken:
                return None
            raise

    def _catch_up(self, fd: int, *, at_most: int | None = None) -> IndexHeader:
        """Index what the file lacks, or rebuild it; the lock is held."""
        header = self._valid_header(fd)
        if header is None or (at_most is None and _lacks_most(fd, header)):
            return self._build(fd, at_most=at_most)
        for lines in _batches(fd, self._files.log, header.upto, at_most):
            is_untouched = partial(self._file.is_unchanged_since, header)
            header = self._file.database.index_lines(lines, fd, replace(header, stamp=_stamp()), is_untouched)
            os.utime(self._files.index, ns=(header.stamp, header.stamp))
        return header

    def _build(self, fd: int, *, at_most: int | None = None) -> IndexHeader:
        """Build a new file and rename it over the old one; the lock is held."""
        new, stamp = self._files.new_index, _stamp()
        new.unlink(missing_ok=True)
        database = Database.create(new, empty_header(fd, stamp=stamp))
        try:
            header = self._fill(database, fd, at_most)
            database.finish()
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        finally:
            database.close()
        failpoints.hit("memory.index.before")
        try:
            os.utime(new, ns=(stamp, stamp))
            fsync_path(new)
            self._file.close()
            for suffix in ("-journal", "-wal", "-shm"):
                self._files.index.with_name(f"{self._files.index.name}{suffix}").unlink(missing_ok=True)
            new.replace(self._files.index)
        except FileNotFoundError:
            raise Unavailable(f"{new} was removed while it was built; {self._files.index} was not replaced.") from None
        self._file.trust()
        failpoints.hit("memory.index.after")
        return header

    def _fill(self, database: Database, fd: int, at_most: int | None = None) -> IndexHeader:
        header = database.header()
        for lines in _batches(fd, self._files.log, header.upto, at_most, each=at_most or _LARGE_BATCH_BYTES):
            header = database.index_lines(lines, fd, header)
        return header

    def _private_tail(self, fd: int, start: int, first: int) -> Database | None:
        """Return a private index of the log from an offset on; None when the log ends there."""
        if self._tail is not None:
            header = self._tail.header()
            if (header.start, header.first) != (start, first) or not header.matches_log(fd):
                self._drop_tail()
        try:
            if self._tail is not None:
                self._fill(self._tail, fd)
            elif _has_more(fd, start):
                self._tail = Database.create(None, empty_header(fd, start=start, first=first))
                self._fill(self._tail, fd)
                self._tail.finish()
        except BaseException:
            self._drop_tail()
            raise
        return self._tail

    def _drop_tail(self) -> None:
        if self._tail is not None:
            self._tail.close()
            self._tail = None


def _batches(
    fd: int, log: Path, start: int, at_most: int | None, *, each: int = _BATCH_BYTES
) -> Iterator[Iterator[Line]]:
    """Yield the lines from an offset on, in batches of one transaction each; each must be read before the next."""
    end = os.fstat(fd).st_size
    lines = lines_of(fd, log, start=start, end=end)
    read_bytes = 0

    def part(first: Line) -> Iterator[Line]:
        nonlocal read_bytes
        size = first.length
        yield first
        while size < each and (line := next(lines, None)) is not None:
            size += line.length
            yield line
        read_bytes += size

    while (at_most is None or read_bytes < at_most) and (first := next(lines, None)) is not None:
        yield part(first)


def _has_more(fd: int, upto: int) -> bool:
    """Return whether a line ends after an offset."""
    rest = os.fstat(fd).st_size - upto
    return rest > _SHORT or (rest > 0 and b"\n" in os.pread(fd, rest, upto))


def _lacks_most(fd: int, header: IndexHeader) -> bool:
    """Return whether a rebuild is quicker than an update: building indexes ten times as fast as updating."""
    return os.fstat(fd).st_size - header.upto > max(header.upto, _MUCH_BYTES)


def _stamp() -> int:
    return time.time_ns() // _STAMP_NS * _STAMP_NS


_indexes: "weakref.WeakSet[Index]" = weakref.WeakSet()
_held: list[Index] = []


def _before_fork() -> None:
    for index in list(_indexes):
        index.hold()
        _held.append(index)


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop().release()


def _after_fork_in_child() -> None:
    _held.clear()
    for index in list(_indexes):
        index.forget()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
