"""The database of a derived index: its tables and its queries.

It holds offsets, never text: a match is read from the log again. Records are numbered from 1 in the order of the log; a
private index may begin anywhere in it. Each transaction also updates the header, which says how far the index reaches.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, fields, replace
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import ParamSpec, TypeVar
from zlib import crc32

from perdure.files.opening import create_empty
from perdure.memory.dedupe import dedupe_key, latest_arrival
from perdure.memory.index.header import IndexHeader, ending
from perdure.memory.index.rows import OutOfTime, RecordLocation, Row, Unusable, id_of, is_span, row_of
from perdure.memory.index.terms import (
    BAND,
    MOST_OFTEN,
    UNDATED,
    IndexEntry,
    index_entry,
    is_internal,
    superseded_by,
    target_of,
)
from perdure.memory.index.words import terms_of_all
from perdure.memory.log.lines import Line
from perdure.memory.log.reading import LONGEST
from perdure.memory.normalise import SEVERITIES
from perdure.memory.record import JsonObject

P = ParamSpec("P")
T = TypeVar("T")

_APPLICATION = 0x50524D58
_VERSION = 5
_WAIT_S = 0.5
_LENGTH_BITS = 8
_LONGEST = (1 << _LENGTH_BITS) - 1
_OPCODES = 2000
_CACHE_KB = 16384
_AT_ONCE = 256
"""This many lines are parsed together; their data fits into the processor's cache."""
_SORTED_KB = 4096
"""Sorting in runs that fit into the processor's cache and merging them takes a third less time."""
_LITTLE = 1 << 16
"""The index of this many bytes of log fits into SQLite's cache, so that nothing is written before the commit."""
_SHORT = 64
_ROWS = 100
_BANDS = len(SEVERITIES)
_TABLES = """
    CREATE TABLE noted (device INTEGER, inode INTEGER, start INTEGER, upto INTEGER, crc INTEGER,
        first INTEGER, records INTEGER, words INTEGER, unsummed INTEGER, keyed_since INTEGER, stamp INTEGER);
    CREATE TABLE records (n INTEGER PRIMARY KEY, at INTEGER, length INTEGER, id TEXT, place INTEGER, repo TEXT,
        type TEXT, arrival INTEGER, key BLOB);
    CREATE TABLE hidden (id TEXT PRIMARY KEY, before INTEGER) WITHOUT ROWID;
    CREATE TABLE superseded (id TEXT PRIMARY KEY, before INTEGER) WITHOUT ROWID;
    CREATE TABLE unsummed (at INTEGER PRIMARY KEY, length INTEGER);
    CREATE TABLE postings (term INTEGER, place INTEGER, n INTEGER, PRIMARY KEY (term, place, n)) WITHOUT ROWID;
    CREATE VIRTUAL TABLE texts USING fts5 (words, content='', columnsize=0, detail=none,
        tokenize="ascii tokenchars '^'");
"""
_INDEXES = """
    CREATE INDEX by_id ON records (id);
    CREATE INDEX by_key ON records (key, arrival) WHERE key IS NOT NULL;
"""
_ROW = "r.n, r.at, r.length, r.id, r.place, r.repo, r.type"
_NOT_HIDDEN = "NOT EXISTS (SELECT 1 FROM hidden WHERE hidden.id = r.id AND r.at < hidden.before)"
_CURRENT = f"{_NOT_HIDDEN} AND NOT EXISTS (SELECT 1 FROM superseded s WHERE s.id = r.id AND r.at < s.before)"
_MATCHES_REPO = f"(:repo = '' OR r.repo IN ('', :repo)) AND {_CURRENT}"


_FAILURES = (sqlite3.Error, MemoryError)
"""What SQLite raises; a damaged length may ask for more memory than there is."""


def _require(is_untouched: bool) -> None:
    """Raises: Unusable when another program has written the file."""
    if not is_untouched:
        raise Unusable("another program has written it", is_broken=True)


def translate_sqlite_errors(work: Callable[P, T]) -> Callable[P, T]:
    """Translate errors of SQLite into errors of the index."""

    @wraps(work)
    def translated(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(*args, **kwargs)
        except _FAILURES as error:
            raise _translated(error) from error

    return translated


def _translated(error: sqlite3.Error | MemoryError) -> Exception:
    code = sqlite3.SQLITE_NOMEM if isinstance(error, MemoryError) else _code(error)
    if code == sqlite3.SQLITE_INTERRUPT:
        return OutOfTime()
    outside = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
    full = (sqlite3.SQLITE_PERM, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM)
    return Unusable(str(error) or "out of memory", is_broken=code not in (*outside, *full))


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


class Database:
    """An index in a file, or a private one that ends when it is closed. For one thread at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._is_new = False

    @classmethod
    @translate_sqlite_errors
    def open(cls, path: Path) -> "Database":
        """Open an existing index.

        Raises: Unusable when it is not an index of ours, or has another version.
        """
        opened = cls(_connected(f"{path.absolute().as_uri()}?mode=rw"))
        try:
            _check(opened._connection)
        except BaseException:
            opened.close()
            raise
        return opened

    @classmethod
    @translate_sqlite_errors
    def create(cls, path: Path | None, header: IndexHeader) -> "Database":
        """Create an empty index; call `finish` before the first query. Without a path it is private."""
        if path is not None:
            create_empty(path)
        index = cls(_connected(f"{path.absolute().as_uri()}?mode=rw" if path is not None else ""))
        index._is_new = True
        run = index._connection.executescript
        run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536;")
        run(f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_VERSION}; {_TABLES}")
        run("PRAGMA temp.journal_mode = OFF; PRAGMA temp.cache_size = -16384;")
        run("CREATE TEMP TABLE heap (term INTEGER, place INTEGER, n INTEGER);")
        index._connection.execute(
            f"INSERT INTO noted VALUES ({', '.join('?' * len(astuple(header)))})", astuple(header)
        )
        return index

    @translate_sqlite_errors
    def finish(self) -> None:
        """Sort what was indexed and create the indexes; after this the database can be queried and extended."""
        self._connection.execute(f"PRAGMA cache_size = -{_SORTED_KB}")
        self._connection.executescript(
            "INSERT INTO postings SELECT term, place, n FROM heap ORDER BY term, place, n; DROP TABLE temp.heap;"
        )
        self._connection.executescript(_INDEXES)
        self._connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        self._is_new = False

    def close(self) -> None:
        self._connection.close()

    @translate_sqlite_errors
    def header(self) -> IndexHeader:
        rows = self._connection.execute("SELECT * FROM noted").fetchall()
        if len(rows) != 1 or [type(value) for value in rows[0]] != [int] * len(fields(IndexHeader)):
            raise Unusable("its header cannot be read", is_broken=True)
        header = IndexHeader(*rows[0])
        if not header.is_sound:
            raise Unusable("its header is not consistent", is_broken=True)
        return header

    @translate_sqlite_errors
    def index_lines(
        self, lines: Iterable[Line], fd: int, header: IndexHeader, is_untouched: Callable[[], bool] = lambda: True
    ) -> IndexHeader:
        """Index the lines that follow the indexed part, and update the header, in one transaction.

        `is_untouched` returns whether the file is unchanged since its last writer. It is called before the first
        change, which would hide the time stamp of a foreign write, and again at the end, unless SQLite may have begun
        to write by then.

        Raises: Unusable
        """
        lines, start = iter(lines), header.upto
        with self._transaction():
            _require(is_untouched())
            while (more := self._insert(islice(lines, _AT_ONCE), fd, header)).upto > header.upto:
                header = more
            header = replace(header, crc=ending(fd, header.upto))
            values = (header.upto, header.crc, header.records, header.words, header.unsummed, header.stamp)
            changed = "upto = ?, crc = ?, records = ?, words = ?, unsummed = ?, stamp = ?"
            self._connection.execute(f"UPDATE noted SET {changed}", values)
            _require(header.upto - start > _LITTLE or is_untouched())
        return header

    @translate_sqlite_errors
    def has_unedited_lines(self, fd: int) -> bool:
        """Return whether all lines without a valid checksum are as they were when they were indexed."""
        checksum = 0
        for at, length in self._connection.execute("SELECT at, length FROM unsummed ORDER BY at"):
            if not is_span(at, length):
                return False
            checksum = _checksum(fd, at, length, checksum)
        return checksum == self.header().unsummed

    def _insert(self, lines: Iterable[Line], fd: int, header: IndexHeader) -> IndexHeader:
        """Insert rows for some lines, and return the header for them."""
        rows: list[object] = []
        postings: list[object] = []
        contents: list[JsonObject] = []
        hidden: list[tuple[str, int]] = []
        superseded: list[tuple[str, int]] = []
        unsummed: list[tuple[int, int]] = []
        n, upto, checksum = header.next, header.upto, header.unsummed
        for line in lines:
            upto = line.offset + line.length + 1
            if line.kind != "checked":
                unsummed.append((line.offset, line.length))
                checksum = _checksum(fd, line.offset, line.length, checksum)
            if line.content is None or not line.is_served:
                continue
            entry = index_entry(line)
            if is_internal(entry.type):
                hidden.append((target_of(line.content), line.offset))
                continue
            superseded += ((name, line.offset) for name in superseded_by(line.content))
            rows += _values(n, line, entry, header.keyed_since)
            for term in entry.terms():
                postings += (term, entry.place, n)
            contents.append(line.content)
            n += 1
        _insert_values(self._connection, "records", 9, rows)
        _insert_values(self._connection, "heap" if self._is_new else "postings", 3, postings)
        words = self._insert_texts(header.next, contents)
        self._connection.executemany("INSERT OR REPLACE INTO hidden SELECT ?1, ?2 WHERE ?1 <> ''", hidden)
        self._connection.executemany("INSERT OR REPLACE INTO superseded VALUES (?, ?)", superseded)
        self._connection.executemany("INSERT INTO unsummed VALUES (?, ?)", unsummed)
        records = header.records + len(contents)
        return replace(header, upto=upto, records=records, words=header.words + words, unsummed=checksum)

    def _insert_texts(self, first: int, contents: Sequence[JsonObject]) -> int:
        """Insert the terms of records that are numbered from `first` on, and return the number of terms."""
        texts = [_indexed(terms) for terms in terms_of_all(contents)]
        rows = ((n << _LENGTH_BITS | length, text) for n, (length, text) in enumerate(texts, first))
        self._connection.executemany("INSERT INTO texts (rowid, words) VALUES (?, ?)", rows)
        return sum(length for length, _text in texts)

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Run the block in a read transaction, so that all of its queries see one state."""
        try:
            self._connection.execute("BEGIN")
            yield
        except _FAILURES as error:
            raise _translated(error) from error
        finally:
            with suppress(sqlite3.Error):  # a damaged file can fail even here; a read has nothing to lose
                self._connection.rollback()

    def set_deadline(self, deadline_s: float | None) -> None:
        """Set the deadline, on the monotonic clock, after which every query raises OutOfTime."""
        if deadline_s is None:
            self._connection.set_progress_handler(None, 0)
        else:
            self._connection.set_progress_handler(lambda: time.monotonic() > deadline_s, _OPCODES)

    def with_term(self, term: int, oldest: int, repo: str, *, is_hasty: bool = False) -> Iterator[Row]:
        """Yield the records of a term that are not older, sorted by place and id; a hasty query sorts by place only."""
        # See BAND in `terms`. A term with few records is read whole and filtered. For others, each band is read as one
        # range up to the maximum age, and then the undated records at its end, so that old records are never read.
        if self._is_short(term):
            rows = self._between(term, 0, _BANDS * BAND, repo, is_hasty=is_hasty)
            yield from (row for row in rows if row.place % BAND <= oldest or row.place % BAND == UNDATED)
            return
        for low in range(0, _BANDS * BAND, BAND):
            for first, last in ((low, low + oldest), (low + UNDATED, low + UNDATED)):
                yield from self._between(term, first, last, repo, is_hasty=is_hasty)

    @translate_sqlite_errors
    def _is_short(self, term: int) -> bool:
        query = "SELECT count(*) FROM (SELECT 1 FROM postings WHERE term = ? LIMIT ?)"
        return int(self._connection.execute(query, (term, _SHORT + 1)).fetchone()[0]) <= _SHORT

    def _between(self, term: int, low: int, high: int, repo: str, *, is_hasty: bool) -> Iterator[Row]:
        query = (
            f"SELECT {_ROW} FROM postings p JOIN records r ON r.n = p.n WHERE p.term = :term AND p.place BETWEEN :low"
            f" AND :high AND {_MATCHES_REPO} ORDER BY p.place{'' if is_hasty else ', r.id'}, p.n"
        )
        return self._rows(query, {"term": term, "low": low, "high": high, "repo": repo})

    def with_words(self, words: Sequence[str], newest: int, oldest: int, repo: str) -> Iterator[Row]:
        """Yield, of the last `newest` records with all the words, those not older, sorted by place and id."""
        query = "SELECT rowid >> :bits AS n FROM texts WHERE texts MATCH :words ORDER BY rowid DESC LIMIT :newest"
        query = (
            f"SELECT {_ROW} FROM ({query}) AS t JOIN records r ON r.n = t.n WHERE (r.place & :within <= :oldest OR"
            f" r.place & :within = :within) AND {_MATCHES_REPO} ORDER BY r.place, r.id, r.n"
        )
        values = {"words": _quoted(words), "newest": newest, "oldest": oldest, "within": UNDATED, "repo": repo}
        return self._rows(query, {**values, "bits": _LENGTH_BITS})

    @translate_sqlite_errors
    def numbers_with(self, words: Sequence[str]) -> list[int]:
        """Return the numbers of all records that have all the words."""
        query = "SELECT rowid >> ? FROM texts WHERE texts MATCH ?"
        return [n for (n,) in self._connection.execute(query, (_LENGTH_BITS, _quoted(words)))]

    @translate_sqlite_errors
    def count_with(self, words: Sequence[str], at_most: int) -> int:
        """Count the records that have all the words, up to a maximum."""
        query = "SELECT count(*) FROM (SELECT 1 FROM texts WHERE texts MATCH ? LIMIT ?)"
        return int(self._connection.execute(query, (_quoted(words), at_most)).fetchone()[0])

    def texts_with(self, word: str, times: int, newest: int) -> Iterator[tuple[int, int]]:
        """Yield number and length of the last records that have a word at least `times` times, newest first."""
        query = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rowid DESC LIMIT ?"
        try:
            for (rowid,) in self._connection.execute(query, (_quoted([_mark(word, times)]), newest)):
                yield rowid >> _LENGTH_BITS, rowid & _LONGEST
        except _FAILURES as error:
            raise _translated(error) from error

    @translate_sqlite_errors
    def row(self, n: int) -> Row | None:
        """Return a record by its number."""
        values = self._connection.execute(f"SELECT {_ROW} FROM records r WHERE n = ?", (n,)).fetchone()
        return row_of(values) if values else None

    @translate_sqlite_errors
    def with_id(self, name: str) -> list[Row]:
        """Return the last record with an id."""
        query = f"SELECT {_ROW} FROM records r WHERE id = ? ORDER BY n DESC LIMIT 1"
        return [row_of(values) for values in self._connection.execute(query, (name,))]

    @translate_sqlite_errors
    def ids_with_prefix(self, prefix: str, at_most: int) -> list[str]:
        """Return ids with a prefix, sorted."""
        query = (
            f"SELECT DISTINCT id FROM records r WHERE id >= :low AND id < :high AND {_NOT_HIDDEN} ORDER BY id LIMIT :n"
        )
        values = {"low": prefix, "high": prefix + "\U0010ffff", "n": at_most}
        return [id_of(row) for row in self._connection.execute(query, values)]

    @translate_sqlite_errors
    def is_hidden(self, row: Row) -> bool:
        """Return whether a tombstone hides a record; records added after the tombstone are not hidden."""
        query = "SELECT 1 FROM hidden WHERE id = ? AND ? < before"
        return self._connection.execute(query, (row.id, row.at)).fetchone() is not None

    @translate_sqlite_errors
    def is_superseded(self, row: Row) -> bool:
        """Return whether a later record supersedes a record."""
        query = "SELECT 1 FROM superseded WHERE id = ? AND ? < before"
        return self._connection.execute(query, (row.id, row.at)).fetchone() is not None

    @translate_sqlite_errors
    def is_removed(self, row: Row) -> bool:
        """Return whether a record is forgotten or superseded."""
        query = (
            "SELECT 1 FROM hidden WHERE id = ?1 AND ?2 < before"
            " UNION ALL SELECT 1 FROM superseded WHERE id = ?1 AND ?2 < before"
        )
        return self._connection.execute(query, (row.id, row.at)).fetchone() is not None

    @translate_sqlite_errors
    def first_with(self, keys: Collection[bytes], since_ms: int) -> dict[bytes, str] | None:
        """See `KeyIndex.first_with`."""
        if since_ms < self.header().keyed_since:
            return None
        query = (
            f"SELECT id FROM records r WHERE key = ? AND arrival BETWEEN ? AND ? AND {_CURRENT}"
            " ORDER BY arrival, n LIMIT 1"
        )
        until_ms = latest_arrival(since_ms)
        rows = {key: self._connection.execute(query, (key, since_ms, until_ms)).fetchone() for key in keys}
        return {key: id_of(row) for key, row in rows.items() if row}

    @translate_sqlite_errors
    def locations(self, names: Collection[str]) -> dict[str, RecordLocation]:
        """See `IdIndex.locations`."""
        hidden = "SELECT before FROM hidden WHERE id = ?"
        locations: dict[str, RecordLocation] = {}
        for name in names:
            tombstone = self._connection.execute(hidden, (name,)).fetchone()
            if tombstone is not None and type(tombstone[0]) is not int:
                raise Unusable("a tombstone in it cannot be read", is_broken=True)
            rows = [row for row in self.with_id(name) if tombstone is None or row.at >= tombstone[0]]
            if rows or tombstone is not None:
                locations[name] = (rows[0].at, rows[0].length) if rows else None
        return locations

    def _rows(self, query: str, values: dict[str, object]) -> Iterator[Row]:
        try:
            for columns in self._connection.execute(query, values):
                yield row_of(columns)
        except _FAILURES as error:
            raise _translated(error) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.rollback()
            raise


def _check(connection: sqlite3.Connection) -> None:
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != _APPLICATION:
        raise Unusable("it is not an index of Perdure", is_broken=True)
    if version != _VERSION:
        raise Unusable(f"its version is {version}", is_broken=version < _VERSION)
    connection.executescript(f"PRAGMA synchronous = NORMAL; PRAGMA cache_size = -{_CACHE_KB};")


def _insert_values(connection: sqlite3.Connection, table: str, width: int, values: list[object]) -> None:
    """Insert rows from a flat list of values, many with each statement: that is four times as fast."""
    row = f"({', '.join('?' * width)})"
    size = _ROWS * width
    whole = len(values) - len(values) % size
    many = f"INSERT INTO {table} VALUES {', '.join([row] * _ROWS)}" if whole else ""
    for at in range(0, whole, size):
        connection.execute(many, values[at : at + size])
    rest = [values[at : at + width] for at in range(whole, len(values), width)]
    connection.executemany(f"INSERT INTO {table} VALUES {row}", rest)


def _connected(name: str) -> sqlite3.Connection:
    return sqlite3.connect(name, uri=True, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)


def _checksum(fd: int, at: int, length: int, before: int) -> int:
    """Extend a checksum by a line, or by the start of a line that is longer than a record can be."""
    return crc32(os.pread(fd, min(length, LONGEST), at), before)


def _values(n: int, line: Line, entry: IndexEntry, keyed_since: int) -> tuple[object, ...]:
    arrival = line.arrival_ms
    if arrival is not None and arrival.bit_length() >= 63:
        arrival = None
    key = dedupe_key(line.content or {}) if arrival is not None and arrival >= keyed_since else None
    return (n, line.offset, line.length, entry.id, entry.place, entry.repo, entry.type, arrival, key)


def _indexed(terms: Sequence[str]) -> tuple[int, str]:
    """Return the number of terms of a record, and the text that is indexed: each term, and a mark per repetition.

    The index keeps no positions and no counts. A term that occurs three times is indexed as `term term^2 term^3`, so
    that its frequency can still be found by a query for the marks.
    """
    marks: dict[str, int] = {}
    for term in terms:
        if term not in marks:
            marks[term] = 1
        elif (times := marks[term] + 1) <= MOST_OFTEN:
            marks[term] = times
            marks[f"{term}^{times}"] = 1
    return min(len(terms), _LONGEST), " ".join(marks)


def _mark(word: str, times: int) -> str:
    return word if times == 1 else f"{word}^{times}"


def _quoted(marks: Iterable[str]) -> str:
    """Return a query for all of the marks; each is quoted, so that none can be an operator."""
    return " ".join(f'"{mark}"' for mark in marks)
