"""What an index notes about the log that it was made of, so that it is never asked about another one."""

import os
from dataclasses import dataclass
from zlib import crc32

from perdure.memory.dedupe import WINDOW_MS
from perdure.memory.log.log import now_ms

_KEYED_MS = WINDOW_MS + 60 * 60 * 1000
"""Older records are no duplicates any more, also for who has another time than we."""
_ENDING = 4096
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True)
class Noted:
    """What an index knows about the log that it was made of: which file, from where, how far, and how that ends.

    Records that arrived before `keyed_since` have no dedupe key: they were too old to be asked for when it was made.
    `unsummed` is the sum of all lines that have no right one of their own, which would tell when they are edited.
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

    def fits(self, fd: int) -> bool:
        """Tell whether the log that is open here begins with what was taken in."""
        is_same = _identity(fd) == (self.device, self.inode) and os.fstat(fd).st_size >= self.upto
        return is_same and ending(fd, self.upto) == self.crc

    @property
    def is_sound(self) -> bool:
        """Whether the numbers can be those of an index; damage that SQLite did not notice may have changed one."""
        is_ordered = 0 <= self.start <= self.upto and self.upto - self.start >= self.records
        return is_ordered and min(self.records, self.words) >= 0 and self.first > 0

    @property
    def next(self) -> int:
        """The number of the next record."""
        return self.first + self.records


def nothing_of(fd: int, *, start: int = 0, first: int = 1, stamp: int = 0) -> Noted:
    """Return the note of an index that has taken in nothing of a log, and will begin there."""
    device, inode = _identity(fd)
    keyed_since = now_ms() - _KEYED_MS
    return Noted(device, inode, start, start, ending(fd, start), first, 0, 0, 0, keyed_since, stamp)


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev & _LARGEST, found.st_ino & _LARGEST


def ending(fd: int, upto: int) -> int:
    """Return the sum of the last bytes before an offset: those hold the sum of the last line."""
    size = min(_ENDING, upto)
    return crc32(os.pread(fd, size, upto - size))
