"""Reads a log without a lock: bytes, split at line ends only.

Bytes after the last line end are an unfinished write and not a line yet. Functions that read all records accept them
when they are a whole record: a program or an editor has left out the line end.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from perdure.memory.log.files import open_file, read_at
from perdure.memory.log.lines import Line, read_line
from perdure.memory.paths import MemoryFiles
from perdure.memory.record import LARGEST_BYTES, JsonObject

_CHUNK = 1 << 18
_BACKWARDS = 1 << 16
LONGEST = 2 * LARGEST_BYTES
"""A longer line was not written by us; it is skipped without being kept in memory."""


def read_records(path: str | os.PathLike[str]) -> list[JsonObject]:
    """Return all records of a log, oldest first; an empty list when the file is missing.

    Raises: as `iter_records`.
    """
    return list(iter_records(path))


def iter_records(path: str | os.PathLike[str], *, raw: bool = False) -> Iterator[JsonObject]:
    """Yield the records of a log, oldest first; with `raw` including the keys that the log added.

    Raises: Invalid when the path cannot be a file; Denied; Unavailable.
    """
    for line in iter_lines(MemoryFiles(Path(path)).log):
        if line.is_served:
            yield line.content or {} if raw else line.record


def iter_lines(path: Path, *, start: int = 0) -> Iterator[Line]:
    """Yield every line of a log from an offset on, records or not; nothing when the file is missing."""
    try:
        fd = open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        yield from whole_lines_of(fd, path, start=start)
    finally:
        os.close(fd)


def whole_lines_of(fd: int, path: Path, *, start: int = 0, end: int | None = None) -> Iterator[Line]:
    """Yield the lines of an open log, and a whole record after the last line end."""
    at = start
    for line in lines_of(fd, path, start=start, end=end):
        at = line.offset + line.length + 1
        yield line
    rest = read_at(fd, path, at, LONGEST if end is None else min(LONGEST, end - at))
    if rest and b"\n" not in rest and (line := read_line(at, rest)).is_served:
        yield line


def lines_of(fd: int, path: Path, *, start: int = 0, end: int | None = None) -> Iterator[Line]:
    """Yield the lines of an open log that begin at or after one offset and end before another."""
    for offset, length, text in texts_of(fd, path, start=start, end=end):
        yield Line(offset, length, "unreadable") if text is None else read_line(offset, text)


def texts_of(fd: int, path: Path, *, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield offset, length and text of the lines of an open log; None for the text of an overlong line."""

    def chunks() -> Iterator[bytes]:
        at = start
        while chunk := read_at(fd, path, at, _CHUNK if end is None else min(_CHUNK, end - at)):
            yield chunk
            at += len(chunk)

    return split(chunks(), start)


def split(chunks: Iterable[bytes], at: int = 0) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield offset, length and text of all complete lines; None for the text of an overlong line."""
    rest, skipped_bytes = b"", 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest += first
        if others:
            *whole, last = others
            length = skipped_bytes + len(rest)
            yield at, length, None if skipped_bytes else rest
            at += length + 1
            for text in whole:
                yield at, len(text), text
                at += len(text) + 1
            rest, skipped_bytes = last, 0
        if len(rest) > LONGEST:
            skipped_bytes, rest = skipped_bytes + len(rest), b""


def lines_backwards(fd: int, path: Path, *, end: int) -> Iterator[Line]:
    """Yield the lines of an open log that end before an offset, last line first."""
    tail, at = b"", end
    is_unfinished = True
    while at > 0:
        size = min(_BACKWARDS, at)
        at -= size
        block = read_at(fd, path, at, size) + tail
        tail, *whole = block.split(b"\n")
        position = at + len(block)
        for text in reversed(whole):
            position -= len(text)
            if not is_unfinished:
                yield read_line(position, text)
            is_unfinished = False
            position -= 1
        if len(tail) > LONGEST:
            tail = tail[:_BACKWARDS] + b"\0"  # too long to be a record of ours; its begin is enough to see that
    if not is_unfinished:
        yield read_line(0, tail)
