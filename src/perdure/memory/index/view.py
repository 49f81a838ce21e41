"""What is found through the indexes of one log, taken together, and read from the log again."""

import heapq
import os
import time
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from perdure.memory.index.index_db import Database
from perdure.memory.index.rows import OutOfTime, Row
from perdure.memory.index.terms import UNDATED, Facts, facts_of, term
from perdure.memory.log.files import identity, told
from perdure.memory.log.lines import Line, read_line
from perdure.memory.record import Plain


class Stale(Exception):
    """The log does not hold what an index says."""


class View:
    """One or two indexes that hold together all of a log, the later part last; good for one question."""

    def __init__(self, parts: Sequence[Database], fd: int, log: Path, *, is_lenient: bool = False) -> None:
        self._parts = parts
        self._fd = fd
        self._log = log
        self._is_lenient = is_lenient
        self._deadline_s: float | None = None
        notes = [part.noted() for part in parts]
        self.upto = notes[-1].upto if notes else 0
        """Up to this offset the log is known."""
        self.file = identity(os.fstat(fd))
        self.records = sum(noted.records for noted in notes)
        self.words = sum(noted.words for noted in notes)

    def until(self, deadline_s: float | None) -> None:
        """End every question from now on with OutOfTime when a moment of the monotonic clock is reached."""
        self._deadline_s = deadline_s
        for part in self._parts:
            part.until(deadline_s)

    def filed(self, term: int, oldest: int, repo: str, *, is_hasty: bool = False) -> Iterator[Row]:
        """Give the records of a term that are not older, the worst first, of those the newest, then by id."""
        return _merged([part.filed(term, oldest, repo, is_hasty=is_hasty) for part in self._parts])

    def with_words(self, words: Sequence[str], newest: int, oldest: int, repo: str) -> Iterator[Row]:
        """Give of the last so many records with all the words those that are not older, in the same order."""
        found = []
        for part in reversed(self._parts):
            found.append(part.with_words(words, newest, oldest, repo))
            newest -= part.count_with(words, newest)
        return _merged(found)

    def numbers_with(self, words: Sequence[str]) -> Iterator[int]:
        """Give the numbers of all records that have all the words."""
        return chain.from_iterable(part.numbers_with(words) for part in self._parts)

    def count_with(self, words: Sequence[str], at_most: int) -> int:
        """Count the records that have all the words, up to a number."""
        return min(at_most, sum(part.count_with(words, at_most) for part in self._parts))

    def texts_with(self, word: str, times: int, newest: int) -> Iterator[tuple[int, int]]:
        """Give the last records that have a word at least so many times, and their lengths, the newest first."""
        parts = (part.texts_with(word, times, newest) for part in reversed(self._parts))
        return islice(chain.from_iterable(parts), newest)

    def row(self, n: int) -> Row | None:
        """Return a record by its number."""
        return next((row for part in reversed(self._parts) if (row := part.row(n)) is not None), None)

    def called(self, name: str) -> Row | None:
        """Return the last record with an id."""
        return next((row for part in reversed(self._parts) for row in part.called(name)), None)

    def ids_from(self, beginning: str, at_most: int) -> list[str]:
        """Return a few ids that begin so, and are not hidden."""
        found = {name for part in self._parts for name in part.ids_from(beginning, at_most)}
        return sorted(name for name in found if self.visible(name) is not None)

    def visible(self, name: str) -> Row | None:
        """Return the last record with an id, unless it is hidden."""
        row = self.called(name)
        return None if row is None or self.is_hidden(row) else row

    def is_hidden(self, row: Row) -> bool:
        """Tell whether there is a tombstone for a record."""
        return any(part.is_hidden(row) for part in self._parts)

    def is_superseded(self, row: Row) -> bool:
        """Tell whether a later record takes the place of a record."""
        return any(part.is_superseded(row) for part in self._parts)

    def is_current(self, row: Row) -> bool:
        """Tell whether a record is neither to be forgotten nor superseded."""
        return not any(part.is_gone(row) for part in self._parts)

    def with_key(self, key: str) -> list[Plain]:
        """Return the current records that have a key and an id, in the order of the log."""
        rows = sorted(self.filed(term("key", key), UNDATED, ""), key=lambda row: row.n)
        found = [self.read(row) for row in rows if row.id and self.is_current(row)]
        return [line.record for line, facts in filter(None, found) if facts.key == key]

    def read(self, row: Row) -> tuple[Line, Facts] | None:
        """Read a record from the log.

        Raises: Stale when the log has another one there; a lenient view passes over it. OutOfTime.
        """
        if self._deadline_s is not None and time.monotonic() > self._deadline_s:
            raise OutOfTime
        with told(self._log):
            line = read_line(row.at, os.pread(self._fd, row.length, row.at))
        if line.is_served:
            facts = facts_of(line)
            if (facts.id, facts.place) == (row.id, row.place):
                return line, facts
        if self._is_lenient:
            return None
        raise Stale


def _merged(found: list[Iterator[Row]]) -> Iterator[Row]:
    return found[0] if len(found) == 1 else heapq.merge(*found, key=lambda row: (row.place, row.id, row.n))
