"""Rewrites a log while others read and append: a new file is written beside it and renamed over it."""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from perdure import failpoints
from perdure.errors import Conflict, Unavailable
from perdure.files.fsync import fsync_file
from perdure.files.opening import write_all
from perdure.memory.log.files import OpenFile, chunks_of, copy_owner, identity, translate_os_errors
from perdure.memory.log.lock import LogLock
from perdure.memory.log.log import Log

WAIT_S = 60.0
_LITTLE = 1 << 20
"""At most this many bytes are copied while writers wait."""
_ROUNDS = 8

Piece = bytes | range
"""A part of the new log: these bytes, or those between two offsets of the old one."""


class Draft:
    """The file that will replace a log; only one process writes it at a time."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd
        self.size = 0
        self._buffer = bytearray()

    def fill(self, source: OpenFile, pieces: Iterable[Piece]) -> None:
        """Write the pieces; ranges refer to the source, and adjacent ones are copied together."""
        run = range(0)
        for piece in pieces:
            if isinstance(piece, bytes):
                self.copy(source.fd, run)
                run = range(0)
                self._write(piece)
            elif piece.start == run.stop:
                run = range(run.start, piece.stop)
            else:
                self.copy(source.fd, run)
                run = piece
        self.copy(source.fd, run)

    def copy(self, fd: int, part: range) -> None:
        """Copy the bytes between two offsets of another file."""
        for chunk in chunks_of(fd, self.path, part.start, part.stop):
            self._write(chunk)

    def flush(self) -> None:
        """Make what was written durable."""
        self._write_buffer()
        with translate_os_errors(self.path):
            failpoints.hit("memory.draft.before")
            fsync_file(self.fd)
            failpoints.hit("memory.draft.after")

    def _write(self, data: bytes) -> None:
        self._buffer += data
        self.size += len(data)
        if len(self._buffer) > _LITTLE:
            self._write_buffer()

    def _write_buffer(self) -> None:
        with translate_os_errors(self.path):
            write_all(self.fd, self._buffer)
        self._buffer.clear()


@contextmanager
def rewriting(log: Log, *, wait_s: float = WAIT_S) -> Iterator[Draft]:
    """Lock a log for rewriting, and yield an empty draft; leftovers of a crash are removed.

    Raises: Conflict when another process rewrites it for too long.
    """
    lock = LogLock(log.files.new, wait_s, kind="outer")
    with ExitStack() as stack:
        stack.callback(lock.close)
        try:
            stack.enter_context(lock)
        except Unavailable as error:
            raise Conflict(f"Another process rewrites {log.files.log} now. {error}") from error
        stack.callback(_remove, log.files.new, lock)
        with translate_os_errors(log.files.new):
            os.ftruncate(lock.fd, 0)
            for leftover in log.files.archive.glob("*.new"):
                leftover.unlink(missing_ok=True)
        yield Draft(log.files.new, lock.fd)


def _remove(path: Path, lock: LogLock) -> None:
    if lock.is_in_place():
        path.unlink(missing_ok=True)


def rewrite(log: Log, draft: Draft, source: OpenFile, size: int, pieces: Iterable[Piece]) -> int:
    """Replace a log by the pieces and by all lines appended after `size`; return the offset of the latter.

    Lines that were appended while the pieces were copied are copied in rounds without the lock, until few are left;
    the last ones are copied under the lock, so that writers wait only for a short time.

    Raises: Conflict when the log was replaced or truncated without the lock; as `Log.append`.
    """
    copy_owner(draft.fd, source.fd, log.files.log)
    draft.fill(source, pieces)
    draft.flush()
    new_records = draft.size

    def catch_up(fd: int, upto: int) -> None:
        nonlocal size
        if identity(os.fstat(fd)) != source.identity or upto < size:
            raise Conflict(f"{log.files.log} was replaced while it was rewritten; it was not changed.")
        draft.copy(fd, range(size, upto))
        draft.flush()
        size = upto

    for _ in range(_ROUNDS):
        file, upto = log.snapshot()
        if upto - size < _LITTLE:
            break
        catch_up(file.fd, upto)
    log.replace(draft, catch_up)
    return new_records
