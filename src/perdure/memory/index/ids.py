"""Finds the record that has an id. An id belongs to one record, in the log and the archive together.

The check runs under the lock of the log, so that of several writers with one id exactly one succeeds. The id of a
forgotten record stays taken, so that the record cannot come back. Generated ids are unique and are never checked.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from json import dumps
from pathlib import Path
from typing import Protocol

import orjson

from perdure.errors import Conflict, Invalid
from perdure.memory.dedupe import LONG_BYTES
from perdure.memory.index.header import ending
from perdure.memory.index.rows import RecordLocation
from perdure.memory.index.terms import is_internal, target_of
from perdure.memory.log.archive import archive_files, record_id_of
from perdure.memory.log.files import OpenFile, identity, open_file, read_at
from perdure.memory.log.lines import Line, read_line
from perdure.memory.log.reading import LONGEST, lines_of
from perdure.memory.normalise import normalised
from perdure.memory.paths import MemoryFiles
from perdure.memory.record import JsonObject, shown

_BLOCK = 1 << 20
_FEW = 8
"""For at most this many ids, a block of the archive is searched as bytes; for more, every line is parsed."""

_Signature = tuple[tuple[str, int, int, int], ...]


class IdIndex(Protocol):
    """Finds indexed records by their id."""

    def covered(self, fd: int) -> int | None:
        """Return the offset up to which the open log is indexed; None when the index belongs to another file."""
        ...

    def locations(self, names: Collection[str]) -> Mapping[str, RecordLocation] | None:
        """Return the location of the last record with each id, None for a forgotten one; unknown ids are left out.

        None instead of a mapping means that the index is unusable.
        """
        ...


@dataclass(frozen=True)
class Archived:
    """The archived records with some ids, and the state of the archive when they were looked up."""

    signature: _Signature
    records: Mapping[str, JsonObject]


def in_archive(files: MemoryFiles, names: Collection[str]) -> Archived:
    """Look up ids in the archive, outside of the lock because the archive may be large.

    Raises: Denied; Unavailable; Damaged.
    """
    if not names:
        return Archived((), {})
    signature = _signature(files)
    records: dict[str, JsonObject] = {}
    for path in archive_files(files):
        for line in _lines_with(path, names):
            if line.is_served and (name := record_id_of(line)) in names and name is not None:
                records[name] = line.record
    return Archived(signature, records)


class TakenIds:
    """Finds the record that has an id, for a check under the lock of the log.

    Each part of the log is read once; anything before that part is looked up in the index.
    """

    def __init__(self, files: MemoryFiles, index: IdIndex) -> None:
        self._files = files
        self._index = index
        self._file = (0, 0)
        self._from = self._upto = self._ending = 0
        self._later: dict[int, int] = {}
        """The offset of the last record with an id, by the digest of the id; -1 when it is forgotten."""

    def unread_bytes(self, fd: int) -> int:
        """Return how many bytes of the log would have to be read, so that a caller can update the index first."""
        status = os.fstat(fd)
        covered = self._upto if identity(status) == self._file else self._index.covered(fd) or 0
        return max(status.st_size - covered, 0)

    @property
    def read_bytes(self) -> int:
        """How many bytes had to be read because they were not indexed."""
        return self._upto - self._from

    def find(self, names: Collection[str], fd: int, size: int, archived: Archived) -> dict[str, JsonObject | None]:
        """Return the record for each id that is taken; None for a forgotten one.

        Raises: Denied; Unavailable; Damaged.
        """
        if not names:
            return {}
        if archived.signature != _signature(self._files):  # a compaction has moved records meanwhile
            archived = in_archive(self._files, names)
        locations = self._locate(names, fd, size, self._index.covered(fd))
        records = self._records(fd, locations)
        if None in records.values():  # the index disagrees with the log, so all of the log is read
            locations = self._locate(names, fd, size, None)
            records = self._records(fd, locations)
        taken = {
            name: records.get(name)
            for name, location in locations.items()
            if location is None or records[name] is not None
        }
        return {
            name: archived.records[name] for name in names if name in archived.records and name not in locations
        } | taken

    def _locate(self, names: Collection[str], fd: int, size: int, covered: int | None) -> dict[str, RecordLocation]:
        indexed = self._index.locations(names) if covered else {}
        if indexed is None:
            covered, indexed = None, {}
        self._follow(fd, size, min(covered or 0, size))
        later = {name: self._later[digest] for name in names if (digest := digest_of(name)) in self._later}
        return {**indexed, **{name: None if at < 0 else (at, LONGEST) for name, at in later.items()}}

    def _follow(self, fd: int, size: int, covered: int) -> None:
        """Read the lines appended since; in another file, all lines that are not indexed."""
        is_known = identity(os.fstat(fd)) == self._file and size >= self._upto
        if not is_known or ending(fd, self._upto) != self._ending or not 0 <= covered - self._from <= LONG_BYTES:
            self._file, self._from, self._upto = identity(os.fstat(fd)), covered, covered
            self._later.clear()
        for line in lines_of(fd, self._files.log, start=self._upto, end=size):
            self._take(line)
        self._upto, self._ending = size, ending(fd, size)

    def _take(self, line: Line) -> None:
        if line.content is None or not line.is_served:
            return
        if target := target_of(line.content):
            self._later[digest_of(target)] = -1
        elif (name := record_id_of(line)) and not is_internal(str(line.content.get("type", ""))):
            self._later[digest_of(name)] = line.offset

    def _records(self, fd: int, locations: Mapping[str, RecordLocation]) -> dict[str, JsonObject | None]:
        return {name: self._record(fd, name, location) for name, location in locations.items() if location is not None}

    def _record(self, fd: int, name: str, location: tuple[int, int]) -> JsonObject | None:
        """Read a record from the log; None when another record is at the offset."""
        at, length = location
        text = read_at(fd, self._files.log, at, length).partition(b"\n")[0]
        line = read_line(at, text)
        return line.record if line.is_served and record_id_of(line) == name else None


def is_same(record: JsonObject, stored: JsonObject, *, is_dated: bool) -> bool:
    """Return whether a record equals a stored one; a timestamp that was filled in by us does not count."""
    with suppress(Invalid):  # another program wrote it: it is compared unchanged
        stored = normalised(stored, 0, is_foreign=True)
    ignored = ("v",) if is_dated else ("v", "timestamp")
    return _text(record, ignored) == _text(stored, ignored)


def id_conflict(ids: Mapping[int, str], holders: Mapping[str, JsonObject | None]) -> Conflict:
    """Return the error for records with taken ids, by their number in the batch; 0 for a single record."""
    errors = [f"Record {number}: the id {_holder(name, holders)}." for number, name in ids.items()]
    [number, name] = next(iter(ids.items()))
    if number == 0:
        return Conflict(
            f"The id {_holder(name, holders)}; nothing was stored. Choose another id, or leave it out.",
            current=holders[name],
        )
    return Conflict(f"{errors[0]} None was stored. Choose another id, or leave it out.", errors=errors)


def _holder(name: str, holders: Mapping[str, JsonObject | None]) -> str:
    is_forgotten = holders[name] is None
    return f"{shown(name)} {'is that of a forgotten record' if is_forgotten else 'is taken by another record'}"


def is_equal(record: JsonObject, stored: JsonObject) -> bool:
    """Return whether a record equals the stored one, key by key."""
    return _text(record, ("v",)) == _text(stored, ("v",))


def _text(record: JsonObject, ignored: Collection[str]) -> bytes:
    kept = {key: value for key, value in record.items() if key not in ignored}
    return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)


def digest_of(name: str) -> int:
    """Return a digest of an id that takes little memory."""
    return int.from_bytes(blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest(), "big")


def _signature(files: MemoryFiles) -> _Signature:
    signature = []
    for path in archive_files(files):
        with suppress(FileNotFoundError):
            status = path.stat()
            signature.append((path.name, status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(signature)


def _lines_with(path: Path, names: Collection[str]) -> Iterator[Line]:
    """Yield the lines of a file that may have one of the ids, written with or without escapes."""
    needles = {text for name in names for text in (orjson.dumps(name), dumps(name).encode())}
    is_few = len(names) <= _FEW
    for block in _blocks(path):
        if is_few and not any(needle in block for needle in needles):
            continue
        for text in block.split(b"\n"):
            if not is_few or any(needle in text for needle in needles):
                yield read_line(0, text)


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield a file in blocks of whole lines; a line that is longer than a record can be is skipped."""
    try:
        file = OpenFile(open_file(path, os.O_RDONLY))
    except FileNotFoundError:
        return
    at, rest = 0, b""
    while chunk := read_at(file.fd, path, at, _BLOCK):
        at += len(chunk)
        whole, end, rest = (rest + chunk).rpartition(b"\n")
        if end:
            yield whole
        if len(rest) > LONGEST:
            rest = b""
