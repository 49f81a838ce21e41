"""Queries over the indexes of one log together; matches are read from the log."""

import heapq
import os
import time
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from perdure.memory.index.index_db import Database
from perdure.memory.index.rows import OutOfTime, Row
from perdure.memory.index.terms import UNDATED, IndexEntry, index_entry, term
from perdure.memory.log.files import identity, translate_os_errors
from perdure.memory.log.lines import Line, read_line
from perdure.memory.record import JsonObject


class Stale(Exception):
    """The log does not have the record that an index says it has."""


class View:
    """One or two indexes that cover all of a log together, the later part last; used for one query."""

    def __init__(self, parts: Sequence[Database], fd: int, log: Path, *, is_lenient: bool = False) -> None:
        self._open_parts = parts
        self._fd = fd
        self._log = log
        self._is_lenient = is_lenient
        self._deadline_s: float | None = None
        headers = [part.header() for part in parts]
        self.upto = headers[-1].upto if headers else 0
        """The offset up to which the log is indexed."""
        self.file = identity(os.fstat(fd))
        self.records = sum(header.records for header in headers)
        self.words = sum(header.words for header in headers)

    def set_deadline(self, deadline_s: float | None) -> None:
        """Set the deadline, on the monotonic clock, after which every query raises OutOfTime."""
        self._deadline_s = deadline_s
        for part in self._open_parts:
            part.set_deadline(deadline_s)

    def with_term(self, term: int, oldest: int, repo: str, *, is_hasty: bool = False) -> Iterator[Row]:
        """Yield the records of a term that are not older, by severity, then newest first, then by id."""
        return _merged([part.with_term(term, oldest, repo, is_hasty=is_hasty) for part in self._open_parts])

    def with_words(self, words: Sequence[str], newest: int, oldest: int, repo: str) -> Iterator[Row]:
        """Yield, of the last `newest` records with all the words, those not older, in the same order."""
        streams = []
        for part in reversed(self._open_parts):
            streams.append(part.with_words(words, newest, oldest, repo))
            newest -= part.count_with(words, newest)
        return _merged(streams)

    def numbers_with(self, words: Sequence[str]) -> Iterator[int]:
        """Yield the numbers of all records that have all the words."""
        return chain.from_iterable(part.numbers_with(words) for part in self._open_parts)

    def count_with(self, words: Sequence[str], at_most: int) -> int:
        """Count the records that have all the words, up to a maximum."""
        return min(at_most, sum(part.count_with(words, at_most) for part in self._open_parts))

    def texts_with(self, word: str, times: int, newest: int) -> Iterator[tuple[int, int]]:
        """Yield number and length of the last records that have a word at least `times` times, newest first."""
        parts = (part.texts_with(word, times, newest) for part in reversed(self._open_parts))
        return islice(chain.from_iterable(parts), newest)

    def row(self, n: int) -> Row | None:
        """Return a record by its number."""
        return next((row for part in reversed(self._open_parts) if (row := part.row(n)) is not None), None)

    def with_id(self, name: str) -> Row | None:
        """Return the last record with an id."""
        return next((row for part in reversed(self._open_parts) for row in part.with_id(name)), None)

    def ids_with_prefix(self, prefix: str, at_most: int) -> list[str]:
        """Return ids with a prefix that are not hidden, sorted."""
        names = {name for part in self._open_parts for name in part.ids_with_prefix(prefix, at_most)}
        return sorted(name for name in names if self.visible(name) is not None)

    def visible(self, name: str) -> Row | None:
        """Return the last record with an id, unless it is hidden."""
        row = self.with_id(name)
        return None if row is None or self.is_hidden(row) else row

    def is_hidden(self, row: Row) -> bool:
        """Return whether a tombstone hides a record."""
        return any(part.is_hidden(row) for part in self._open_parts)

    def is_superseded(self, row: Row) -> bool:
        """Return whether a later record supersedes a record."""
        return any(part.is_superseded(row) for part in self._open_parts)

    def is_current(self, row: Row) -> bool:
        """Return whether a record is neither forgotten nor superseded."""
        return not any(part.is_removed(row) for part in self._open_parts)

    def with_key(self, key: str) -> list[JsonObject]:
        """Return the current records that have a key and an id, in the order of the log."""
        rows = sorted(self.with_term(term("key", key), UNDATED, ""), key=lambda row: row.n)
        read = [self.read(row) for row in rows if row.id and self.is_current(row)]
        return [line.record for line, entry in filter(None, read) if entry.key == key]

    def read(self, row: Row) -> tuple[Line, IndexEntry] | None:
        """Read a record from the log.

        Raises: Stale when another record is there; a lenient view returns None instead. OutOfTime.
        """
        if self._deadline_s is not None and time.monotonic() > self._deadline_s:
            raise OutOfTime
        with translate_os_errors(self._log):
            line = read_line(row.at, os.pread(self._fd, row.length, row.at))
        if line.is_served:
            entry = index_entry(line)
            if (entry.id, entry.place) == (row.id, row.place):
                return line, entry
        if self._is_lenient:
            return None
        raise Stale


def _merged(streams: list[Iterator[Row]]) -> Iterator[Row]:
    return streams[0] if len(streams) == 1 else heapq.merge(*streams, key=lambda row: (row.place, row.id, row.n))
