"""The header of an index: which log file it was built from, and how far."""

import os
from dataclasses import dataclass
from zlib import crc32

from perdure.memory.dedupe import WINDOW_MS
from perdure.memory.log.log import now_ms

_KEYED_MS = WINDOW_MS + 60 * 60 * 1000
"""Older records cannot be duplicates, even for a process whose clock differs by an hour."""
_ENDING = 4096
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True)
class IndexHeader:
    """Which log file was indexed, from which offset to which, and the checksum of the end of that part.

    Records that arrived before `keyed_since` have no dedupe key: they were too old to be duplicates when the index
    was built. `unsummed` is the checksum over all lines without a valid checksum, so that an edit of one is noticed.
    """

    device: int
    inode: int
    start: int
    upto: int
    crc: int
    first: int
    records: int
    words: int
    unsummed: int
    keyed_since: int
    stamp: int

    def matches_log(self, fd: int) -> bool:
        """Return whether the open log begins with the part that was indexed."""
        is_same = _identity(fd) == (self.device, self.inode) and os.fstat(fd).st_size >= self.upto
        return is_same and ending(fd, self.upto) == self.crc

    @property
    def is_sound(self) -> bool:
        """Whether the numbers are consistent; SQLite does not notice every damage."""
        is_ordered = 0 <= self.start <= self.upto and self.upto - self.start >= self.records
        return is_ordered and min(self.records, self.words) >= 0 and self.first > 0

    @property
    def next(self) -> int:
        """The number of the next record."""
        return self.first + self.records


def empty_header(fd: int, *, start: int = 0, first: int = 1, stamp: int = 0) -> IndexHeader:
    """Return the header of an empty index that begins at an offset of a log."""
    device, inode = _identity(fd)
    keyed_since = now_ms() - _KEYED_MS
    return IndexHeader(device, inode, start, start, ending(fd, start), first, 0, 0, 0, keyed_since, stamp)


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev & _LARGEST, status.st_ino & _LARGEST


def ending(fd: int, upto: int) -> int:
    """Return the checksum of the last bytes before an offset, which include the checksum of the last line."""
    size = min(_ENDING, upto)
    return crc32(os.pread(fd, size, upto - size))
