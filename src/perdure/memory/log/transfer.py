"""Exports and imports records as lines of JSON."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import orjson

from perdure.errors import Invalid, Unavailable
from perdure.memory.index.id_table import FORGOTTEN, IdTable
from perdure.memory.index.ids import in_archive, is_same
from perdure.memory.index.rows import Unusable
from perdure.memory.index.terms import target_of
from perdure.memory.log.archive import archive_files, record_id_of
from perdure.memory.log.compaction import is_tombstone, purge_forgotten
from perdure.memory.log.files import OpenFile, identity, open_file, read_at
from perdure.memory.log.lines import Line, line_of, read_line
from perdure.memory.log.log import Log, now_ms
from perdure.memory.log.reading import iter_lines, lines_of, split, whole_lines_of
from perdure.memory.log.removed import find_removed
from perdure.memory.log.verify import LISTED
from perdure.memory.normalise import normalised
from perdure.memory.paths import MemoryFiles
from perdure.memory.record import JsonObject

_BATCH = 500
_BATCH_BYTES = 4 << 20
_LOG = 0
"""The number of the log among the files of a memory; the years of the archive follow."""


def export(files: MemoryFiles, *, raw: bool = False, archive: bool = False) -> Iterator[bytes]:
    """Yield every record as a line of JSON with its line end; with `raw` the stored line, with the keys of the log.

    The archive, if wanted, comes first. Forgotten records are left out.
    """
    try:
        log = OpenFile(open_file(files.log, os.O_RDONLY))
    except FileNotFoundError:
        log = None
    forgotten_upto = find_removed(log.fd, files).forgotten if log is not None else {}
    for path in archive_files(files) if archive else []:
        old = OpenFile(open_file(path, os.O_RDONLY))
        yield from _exported(old, path, dict.fromkeys(forgotten_upto, os.fstat(old.fd).st_size), raw=raw)
    if log is not None:
        yield from _exported(log, files.log, forgotten_upto, raw=raw)


def _exported(file: OpenFile, path: Path, forgotten_upto: dict[str, int], *, raw: bool) -> Iterator[bytes]:
    for line in whole_lines_of(file.fd, path):
        if (
            line.is_served
            and not is_tombstone(line)
            and line.offset >= forgotten_upto.get(record_id_of(line) or "", -1)
        ):
            text = read_at(file.fd, path, line.offset, line.length) if raw else orjson.dumps(line.record)
            yield text + b"\n"


class _ParsedLine(NamedTuple):
    """A record of a line."""

    number: int
    record: JsonObject
    is_dated: bool
    """Whether the line has a timestamp of its own."""
    forgets: str = ""
    """The id of a record that the line's origin has forgotten."""


def import_lines(log: Log, chunks: Iterable[bytes]) -> JsonObject:
    """Add every line of JSON whose id is new; the result lists the numbers of bad lines.

    `conflicts` counts the skipped lines whose id belongs to a different record; `conflicting` lists them. A record
    that was forgotten here is not added, and a tombstone among the lines forgets its record here too; `forgotten`
    counts both. Chunks may be cut anywhere; only one batch is kept in memory at a time.

    Raises: Unavailable; Denied; Damaged. Batches that were added before the error stay stored.
    """
    answer: JsonObject = {
        **dict.fromkeys(("added", "skipped", "forgotten", "conflicts"), 0),
        "conflicting": [],
        "bad_lines": 0,
        "bad": [],
    }
    try:
        with closing(_Ids(log)) as ids:
            needs_purge = _import(log, ids, chunks, answer) or ids.has_unpurged
    except Unusable as error:
        raise Unavailable(f"The ids of {log.files.log} cannot be kept in a temporary file: {error}.") from error
    if needs_purge:
        answer["forgotten"] += purge_forgotten(log, "Each record that the imported log has forgotten")
    return answer


def _import(log: Log, ids: "_Ids", chunks: Iterable[bytes], answer: JsonObject) -> bool:
    """Add the lines; return whether a stored record must be purged."""
    needs_purge = False
    batch: list[_ParsedLine] = []
    size = 0
    for number, (_, length, text) in enumerate(split(_end_last_line(chunks)), 1):
        parsed = _read(number, text, answer)
        if parsed is None:
            continue
        batch.append(parsed)
        size += length
        if len(batch) == _BATCH or size > _BATCH_BYTES:
            needs_purge |= _add(log, ids, batch, answer)
            batch, size = [], 0
    return _add(log, ids, batch, answer) or needs_purge


def _end_last_line(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks, and a line end for a last line without one."""
    return chain(chunks, (b"\n",))


def _read(number: int, text: bytes | None, answer: JsonObject) -> _ParsedLine | None:
    """Parse a line as a record; None for a blank or a bad line. Bad lines are counted in the answer."""
    line = Line(0, 0, "unreadable") if text is None else read_line(0, text)
    if line.kind == "blank":
        return None
    try:
        if not line.is_served:
            raise Invalid("the line is longer than a record can be" if text is None else f"the line is {line.kind}")
        if target := target_of(line.content or {}):
            return _ParsedLine(number, line.record, is_dated=True, forgets=target)
        record = normalised(_with_an_id(line.record), now_ms(), is_foreign=True)
        line_of(record, now_ms())
    except Invalid as error:
        answer["bad_lines"] += 1
        if len(answer["bad"]) < LISTED:
            answer["bad"].append({"line": number, "why": str(error)})
        return None
    return _ParsedLine(number, record, line.record.get("timestamp") is not None)


def _with_an_id(record: JsonObject) -> JsonObject:
    """Return a record with an id; without one, it is derived from the content, so that it is not added twice."""
    if record.get("id") is not None:
        return record
    content = orjson.dumps({key: value for key, value in record.items() if key != "id"}, option=orjson.OPT_SORT_KEYS)
    return {**record, "id": str(UUID(bytes=blake2b(content, digest_size=16).digest(), version=5))}


def _add(log: Log, ids: "_Ids", batch: list[_ParsedLine], answer: JsonObject) -> bool:
    """Add a batch; return whether a stored record must be purged."""
    if not batch:
        return False
    selection = _Selection()

    def choose(fd: int, size: int) -> Sequence[bytes]:
        ids.follow(fd, size)
        for each in batch:
            if each.forgets:
                selection.forget(each, ids.find(each.forgets, fd))
            else:
                selection.take(each, ids.find(each.record["id"], fd))
        return [
            line_of(record, now_ms()) for record in (*selection.tombstones.values(), *selection.new_records.values())
        ]

    ids.catch_up()
    log.append_chosen(choose)
    answer["added"] += len(selection.new_records)
    answer["skipped"] += selection.skipped
    answer["forgotten"] += selection.forgotten
    answer["conflicts"] += len(selection.conflicting)
    answer["conflicting"] += selection.conflicting[: LISTED - len(answer["conflicting"])]
    return selection.is_purge_due


@dataclass
class _Selection:
    """The lines of a batch that are stored, and the counts for the others."""

    new_records: dict[str, JsonObject] = field(default_factory=dict)
    tombstones: dict[str, JsonObject] = field(default_factory=dict)
    skipped: int = 0
    forgotten: int = 0
    conflicting: list[JsonObject] = field(default_factory=list)
    is_purge_due: bool = False

    def take(self, each: _ParsedLine, holder: "_Holder") -> None:
        """Add a record, given the one that has its id."""
        name = each.record["id"]
        stored = self.new_records.get(name) or holder
        if name in self.tombstones or stored == FORGOTTEN:
            self.forgotten += 1
        elif not isinstance(stored, dict):
            self.new_records[name] = each.record
        else:
            self.skipped += 1
            if not is_same(each.record, stored, is_dated=each.is_dated):
                self.conflicting.append({"line": each.number, "id": name})

    def forget(self, each: _ParsedLine, holder: "_Holder") -> None:
        """Add a tombstone, given the record that it is for; once for each record."""
        if holder == FORGOTTEN or each.forgets in self.tombstones:
            return
        self.tombstones[each.forgets] = each.record
        self.forgotten += self.new_records.pop(each.forgets, None) is not None
        self.is_purge_due |= holder is not None


_Holder = JsonObject | int | None
"""The record that has an id, `FORGOTTEN`, or None."""


class _Ids:
    """The records of a memory by id, in a temporary file: they may not fit into memory."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._path = log.files.log
        self._file = (0, 0)
        self._upto = 0
        self._years: list[Path] = []
        self._names = IdTable()
        self.has_unpurged = False
        """Whether a forgotten record is still in a file because a process died before the purge."""

    def catch_up(self) -> None:
        """Read the log without the lock, so that little is left to read under the lock."""
        file, size = self._log.snapshot()
        self.follow(file.fd, size)

    def follow(self, fd: int, size: int) -> None:
        """Read the lines appended since; when the file was replaced, all of it and the archive."""
        if identity(os.fstat(fd)) != self._file or size < self._upto:
            self._file, self._upto = identity(os.fstat(fd)), 0
            self._years = archive_files(self._log.files)
            for number, path in enumerate(self._years, _LOG + 1):
                self._take_all(iter_lines(path), number)
        self._take_all(lines_of(fd, self._path, start=self._upto, end=size), _LOG)
        self._upto = size

    def find(self, name: str, fd: int) -> _Holder:
        """Return the record with an id, given the open log."""
        location = self._names.find(name)
        if location is None:
            return None
        number, at = location
        if number == FORGOTTEN:
            return FORGOTTEN
        is_log = number == _LOG
        lines = lines_of(fd, self._path, start=at) if is_log else iter_lines(self._years[number - _LOG - 1], start=at)
        line = next(lines, None)
        if line is not None and line.is_served and record_id_of(line) == name:
            return line.record
        return in_archive(self._log.files, [name]).records.get(name)  # a year was rewritten, so offsets changed

    def close(self) -> None:
        """Close the temporary file, which removes it."""
        self._names.close()

    def _hide(self, name: str) -> None:
        location = self._names.find(name)
        self.has_unpurged |= location is not None and location[0] != FORGOTTEN
        self._names.hide(name)

    def _take_all(self, lines: Iterator[Line], number: int) -> None:
        for line in lines:
            if is_tombstone(line):
                self._hide(target_of(line.content or {}))
            elif line.is_served and (name := record_id_of(line)) is not None:
                self._names.put(name, number, line.offset)
