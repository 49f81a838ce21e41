"""The index of a log in its file: found, checked, caught up, made anew; and what it lacks, in a private one.

Whoever writes the file holds its lock, so that a deleted and a new file never share a journal. A look-up trusts the
file only if it was as its last writer left it, both before and after the look.
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
from perdure.memory.index.header import Noted, nothing_of
from perdure.memory.index.index_db import Database
from perdure.memory.index.index_file import ABANDONED, PAUSE_S, WAIT_S, IndexFile
from perdure.memory.index.rows import Unusable
from perdure.memory.index.view import Stale, View
from perdure.memory.log.files import open_file, told
from perdure.memory.log.lines import Line
from perdure.memory.log.lock import LogLock
from perdure.memory.log.reading import lines_of
from perdure.memory.paths import Places
from perdure.memory.record import Plain

T = TypeVar("T")

_TRIES = 4
_BATCH_BYTES = 1 << 21
_LARGE_BATCH_BYTES = 1 << 26
"""Nobody waits for the transaction of an index that is being made."""
_MUCH_BYTES = 1 << 24
_SHORT = 1 << 16
_WAIT_S = 2.0
_STAMP_NS = 2_000_000_000
"""Stamps are whole even seconds, which every file system keeps exactly."""


class _Changed(Exception):
    """Somebody has written the file between two looks."""


class Index:
    """Brings the indexes of a log up to date and lends them out. Threads may share it."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._file = IndexFile(places.index)
        self._tail: Database | None = None
        self._lock = LogLock(places.index_lock, wait_s=0)
        self._threads = threading.RLock()
        self._seen = (0, 0, 0)
        _indexes.add(self)

    def use(self, work: Callable[[View], T]) -> T | None:
        """Look into all that the log has now; None when there is no log.

        What is wrong with an index changes no answer: it is made anew, or, where that is not possible, a private one.

        Raises: Unavailable; Denied; Damaged, when the log itself cannot be read.
        """
        with self._threads:
            try:
                fd = open_file(self._places.log, os.O_RDONLY)
            except FileNotFoundError:
                return None
            try:
                return self._use(fd, work)
            finally:
                os.close(fd)

    def _use(self, fd: int, work: Callable[[View], T]) -> T:
        for _ in range(_TRIES):
            try:
                with self._parts(fd) as parts:
                    return work(View(parts, fd, self._places.log))
            except _Changed:
                continue
            except (Stale, Unusable) as error:
                self._drop_tail()
                if isinstance(error, Stale) or error.is_broken:
                    self._file.distrust()
                self._file.close()  # a connection that has failed may be stuck in a transaction
        try:
            return work(View(self._private(fd), fd, self._places.log, is_lenient=True))
        except Unusable as error:
            raise Unavailable(f"No index can be made for {self._places.log}: {error}.") from error

    def catch_up(self, at_most: int) -> None:
        """Let the file take in up to so many bytes more, if that is possible now."""
        with self._threads:
            try:
                fd = open_file(self._places.log, os.O_RDONLY)
            except FileNotFoundError:
                return
            try:
                with self._lock:
                    self._bring_up(fd, at_most=at_most)
            except (Unusable, PerdureError, OSError):
                return  # look-ups read what it lacks
            finally:
                os.close(fd)

    def rebuild(self) -> Plain:
        """Make the file anew, and return how many records, bytes and seconds that was.

        Raises: Unavailable; Denied; NotFound when there is no log.
        """
        begun = time.monotonic()
        with self._threads, LogLock(self._places.index_lock) as lock:
            try:
                fd = open_file(self._places.log, os.O_RDONLY)
            except FileNotFoundError:
                raise NotFound(f"There is no log at {self._places.log}, so there is nothing to index.") from None
            try:
                with told(self._places.index):
                    noted, size = self._make(fd), self._file.size()
            except Unusable as error:
                raise Unavailable(f"{self._places.index} cannot be made: {error}.") from error
            finally:
                os.close(fd)
        lock.close()
        return {"records": noted.records, "bytes": size, "seconds": round(time.monotonic() - begun, 3)}

    def state(self) -> Plain:
        """Tell what the file is worth, without changing it."""
        with self._threads:
            try:
                size = self._places.index.stat().st_size
            except OSError:
                return {"state": "missing", "bytes": 0, "offset": 0, "records": 0}
            noted, is_behind = self._judged()
        if noted is None:
            return {"state": "unusable", "bytes": size, "offset": 0, "records": 0}
        word = "behind" if is_behind else "current"
        return {"state": word, "bytes": size, "offset": noted.upto, "records": noted.records}

    def close(self) -> None:
        """Close all files; the index may be used again."""
        with self._threads:
            self._file.close()
            self._drop_tail()
            self._lock.close()

    def hold(self) -> None:
        """Keep everybody out, before a fork."""
        self._threads.acquire()

    def release(self) -> None:
        """Let others in again, after a fork."""
        self._threads.release()

    def forget(self) -> None:
        """Start anew in a child process: what SQLite has opened belongs to the parent."""
        self._file.forget()
        if self._tail is not None:
            ABANDONED.append(self._tail)
        self._tail = None
        self._threads = threading.RLock()

    def _judged(self) -> tuple[Noted | None, bool]:
        try:
            fd = open_file(self._places.log, os.O_RDONLY)
        except (PerdureError, OSError):
            return None, False
        try:
            noted = self._file.usable(fd, wait_s=WAIT_S)
            return noted, noted is not None and _has_more(fd, noted.upto)
        except (Unusable, OSError):
            return None, False
        finally:
            os.close(fd)

    @contextmanager
    def _parts(self, fd: int) -> Iterator[list[Database]]:
        """Lend indexes that hold together all of the log: the file, and a private one of what it lacks."""
        noted = self._from_file(fd)
        if noted is None:
            parts = self._private(fd)
            self._look_again(parts, fd)
            yield parts
            return
        tail = self._lacking(fd, noted.upto, noted.next)
        with self._file.database.still():
            if self._file.database.noted() != noted:
                raise _Changed
            parts = [self._file.database, tail] if tail is not None else [self._file.database]
            self._look_again(parts, fd)
            yield parts
            if not self._file.is_as(noted):
                raise _Changed

    def _private(self, fd: int) -> list[Database]:
        tail = self._lacking(fd, 0, 1)
        return [tail] if tail is not None else []

    def _look_again(self, parts: list[Database], fd: int) -> None:
        """See whether a line that has no right sum was edited, each time that the log was touched.

        Raises: Stale
        """
        found = os.fstat(fd)
        seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        if seen != self._seen:
            if not all(part.is_as_taken(fd) for part in parts):
                raise Stale
            self._seen = seen

    def _from_file(self, fd: int) -> Noted | None:
        """Return the note of the file after it was caught up; it may lack something while others write it."""
        deadline = time.monotonic() + _WAIT_S
        noted = None
        while noted is None and time.monotonic() <= deadline:
            try:
                noted = self._good(fd)
                if noted is not None and not _has_more(fd, noted.upto):
                    return noted
                with self._lock:
                    return self._bring_up(fd)
            except Unavailable:
                time.sleep(PAUSE_S if noted is None else 0)  # somebody else is writing it
            except (Unusable, PerdureError, OSError):
                return noted
        return noted

    def _good(self, fd: int) -> Noted | None:
        """Return the note of the file; None when it is to be made anew.

        Raises: Unusable when nothing can be done about it.
        """
        try:
            return self._file.usable(fd)
        except Unusable as error:
            if error.is_broken:
                return None
            raise

    def _bring_up(self, fd: int, *, at_most: int | None = None) -> Noted:
        """Let the file take in what it lacks, or make it anew; the lock is held."""
        noted = self._good(fd)
        if noted is None or (at_most is None and _lacks_most(fd, noted)):
            return self._make(fd, at_most=at_most)
        for lines in _batches(fd, self._places.log, noted.upto, at_most):
            is_untouched = partial(self._file.is_as, noted)
            noted = self._file.database.take_in(lines, fd, replace(noted, stamp=_stamp()), is_untouched)
            os.utime(self._places.index, ns=(noted.stamp, noted.stamp))
        return noted

    def _make(self, fd: int, *, at_most: int | None = None) -> Noted:
        """Make the file anew beside the old one and put it into its place; the lock is held."""
        new, stamp = self._places.new_index, _stamp()
        new.unlink(missing_ok=True)
        database = Database.create(new, nothing_of(fd, stamp=stamp))
        try:
            noted = self._fill(database, fd, at_most)
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
                self._places.index.with_name(f"{self._places.index.name}{suffix}").unlink(missing_ok=True)
            new.replace(self._places.index)
        except FileNotFoundError:
            raise Unavailable(f"{new} was removed while it was made; {self._places.index} was not made.") from None
        self._file.trust()
        failpoints.hit("memory.index.after")
        return noted

    def _fill(self, database: Database, fd: int, at_most: int | None = None) -> Noted:
        noted = database.noted()
        for lines in _batches(fd, self._places.log, noted.upto, at_most, each=at_most or _LARGE_BATCH_BYTES):
            noted = database.take_in(lines, fd, noted)
        return noted

    def _lacking(self, fd: int, start: int, first: int) -> Database | None:
        """Return the private index of the log from an offset on; None when there is nothing."""
        if self._tail is not None:
            noted = self._tail.noted()
            if (noted.start, noted.first) != (start, first) or not noted.fits(fd):
                self._drop_tail()
        try:
            if self._tail is not None:
                self._fill(self._tail, fd)
            elif _has_more(fd, start):
                self._tail = Database.create(None, nothing_of(fd, start=start, first=first))
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
    """Give the lines from an offset on, in parts of one transaction each; every part is read before the next."""
    end = os.fstat(fd).st_size
    lines = lines_of(fd, log, start=start, end=end)
    taken = 0

    def part(first: Line) -> Iterator[Line]:
        nonlocal taken
        size = first.length
        yield first
        while size < each and (line := next(lines, None)) is not None:
            size += line.length
            yield line
        taken += size

    while (at_most is None or taken < at_most) and (first := next(lines, None)) is not None:
        yield part(first)


def _has_more(fd: int, upto: int) -> bool:
    """Tell whether a line ends after an offset."""
    rest = os.fstat(fd).st_size - upto
    return rest > _SHORT or (rest > 0 and b"\n" in os.pread(fd, rest, upto))


def _lacks_most(fd: int, noted: Noted) -> bool:
    """Tell whether so much is missing that an index is made anew sooner than it is caught up: ten times as fast."""
    return os.fstat(fd).st_size - noted.upto > max(noted.upto, _MUCH_BYTES)


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
