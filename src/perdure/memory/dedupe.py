"""Deduplication: finds records that report the same event and arrived within the window.

A report of a tool is often repeated: a failed test is reported by every run. So a record is dropped if one with the
same key arrived at most a day before. The window begins with the first record of a key, and duplicates do not extend
it: otherwise a failure that is reported every hour would be recorded once and never again, even months later.

The decision is made under the lock of the log, for every record that is added, so it must be fast and exact. The index
answers quickly, but may lag behind the log, because it is updated only when it is used. So `RecentKeys` combines two
sources: the index for the part of the log that it covers, and the rest of the log, which is read once and then kept in
memory. Without an index, the log is read backwards until the lines are older than the window.
"""

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson

from perdure.memory.index.terms import superseded_by
from perdure.memory.log.lines import Line
from perdure.memory.log.reading import lines_backwards, lines_of
from perdure.memory.normalise import INGESTED_TYPES
from perdure.memory.record import TOMBSTONE, JsonObject

WINDOW_MS = 24 * 60 * 60 * 1000
"""A record is a duplicate when the first one with its key arrived at most this long ago."""

_CLOCKS_DIFFER_MS = 60_000
"""A writer reads its clock before it takes the lock, so arrival times may be slightly out of order."""
LONG_BYTES = 1 << 18
"""If more bytes than this had to be read, the index is updated."""

_Arrival = tuple[bytes, int, str]
_OLD_LINES_TO_STOP = 16
"""The number of old lines in a row that ends the backward search; one alone may come from a wrong clock."""
_REMOVED = b""
"""Used instead of a key for a record that was forgotten or superseded."""
_PARTS = ("type", "repo", "sha", "fingerprint", "pr_number")
_WORDS = ("title", "summary")


def dedupe_key(record: Mapping[str, Any]) -> bytes:
    """Return a digest that is equal for records that report the same event.

    Reports of tools about one commit or one cause are the same, whatever their words. Records that people write are
    the same only with the same words: two lessons about one commit are two records.
    """
    content: JsonObject = {name: value for name in _PARTS if _has_value(value := record.get(name))}
    if record.get("type") not in INGESTED_TYPES:
        content |= {name: value for name in _WORDS if _has_value(value := record.get(name))}
    elif "sha" not in content and "fingerprint" not in content and _has_value(title := record.get("title")):
        content["title"] = title
    if str(record.get("type", "")).startswith("deploy"):
        metadata = record.get("metadata")
        if isinstance(metadata, dict) and _has_value(conclusion := metadata.get("conclusion")):
            content["conclusion"] = conclusion
    try:
        text = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # another program wrote it, nested deeper than we write
        text = repr(content).encode()
    return hashlib.blake2b(text, digest_size=16).digest()


def latest_arrival(since_ms: int) -> int:
    """Return the latest arrival time that still counts for a window that begins at `since_ms`.

    That is a day from now, because clocks differ and are set: a record dated next year must not block others.
    """
    return since_ms + 2 * WINDOW_MS


def _has_value(value: object) -> bool:
    return bool(value.strip()) if isinstance(value, str) else value is not None and value != []


class KeyIndex(Protocol):
    """Finds indexed records by their dedupe key."""

    def covered(self, fd: int) -> int | None:
        """Return the offset up to which the open log is indexed; None when the index belongs to another file."""
        ...

    def first_with(self, keys: Collection[bytes], since_ms: int) -> Mapping[bytes, str] | None:
        """Return the id of the first record of each key that arrived since then; None when the index is unusable."""
        ...


class RecentKeys:
    """The records that arrived within the window, by dedupe key. Used under the lock of the log.

    The end of the log is read, each part once: from the offset that the index covers, or, without an index, backwards
    until the lines are older than the window. See the docstring of the module.
    """

    def __init__(self, log: Path, index: KeyIndex | None = None) -> None:
        self._log = log
        self._index = index
        self._file = (0, 0)
        self._from = self._upto = 0
        self._needs_index = False
        self._first: dict[bytes, tuple[int, str]] = {}
        self._forgotten: set[str] = set()

    @property
    def read_bytes(self) -> int:
        """How many bytes had to be read because they were not indexed."""
        return self._upto - self._from

    def find(self, keys: Collection[bytes], fd: int, size: int, since_ms: int) -> dict[bytes, str]:
        """Return the id of the first record that arrived since then, for each key that has one."""
        covered = self._index.covered(fd) if self._index is not None else None
        if not self._continues(fd, size, covered):
            self._restart(fd, size, covered, since_ms)
        self._take(_arrivals(lines_of(fd, self._log, start=self._upto, end=size)), latest_arrival(since_ms))
        self._upto = size
        first_ids = self._find_indexed(keys, since_ms)
        if first_ids is None:
            self._restart(fd, size, None, since_ms)
            first_ids = {}
        first_ids = {key: name for key, name in first_ids.items() if name not in self._forgotten}
        for key in keys:
            arrived_ms, name = self._first.get(key, (-1, ""))
            if arrived_ms >= since_ms:
                first_ids.setdefault(key, name)
        return first_ids

    def _find_indexed(self, keys: Collection[bytes], since_ms: int) -> dict[bytes, str] | None:
        if self._index is None or not self._needs_index:
            return {}
        first_ids = self._index.first_with(keys, since_ms)
        return dict(first_ids) if first_ids is not None else None

    def _continues(self, fd: int, size: int, covered: int | None) -> bool:
        """Return whether this is the file that was read before, and the index still covers the rest of it."""
        status = os.fstat(fd)
        is_same = (status.st_dev, status.st_ino) == self._file and size >= self._upto
        is_known = not self._needs_index or (covered is not None and covered >= self._from)
        is_mostly_indexed = covered is not None and covered - self._from > LONG_BYTES
        return is_same and is_known and not is_mostly_indexed

    def _restart(self, fd: int, size: int, covered: int | None, since_ms: int) -> None:
        """Read backwards to the offset that is indexed, or to the start of the window."""
        status = os.fstat(fd)
        self._first.clear()
        self._forgotten.clear()
        self._file = (status.st_dev, status.st_ino)
        indexed_upto = min(covered or 0, size)
        self._from, self._upto, self._needs_index = indexed_upto, size, indexed_upto > 0
        arrivals: list[_Arrival] = []
        old = 0
        for line in lines_backwards(fd, self._log, end=size):
            if line.offset < indexed_upto:
                break
            is_old = line.arrival_ms is not None and line.arrival_ms < since_ms - _CLOCKS_DIFFER_MS
            old = old + 1 if is_old and line.is_served else 0
            if old == _OLD_LINES_TO_STOP:
                self._from, self._needs_index = line.offset, False
                break
            arrivals.extend(reversed([*_arrivals([line])]))
        self._take(reversed(arrivals), latest_arrival(since_ms))

    def _take(self, arrivals: Iterable[_Arrival], until_ms: int) -> None:
        for key, arrival_ms, name in arrivals:
            if key == _REMOVED:
                self._forgotten.add(name)
                self._first = {each: first for each, first in self._first.items() if first[1] != name}
            elif arrival_ms > until_ms:
                continue
            elif key not in self._first or arrival_ms - self._first[key][0] > WINDOW_MS:
                self._first[key] = (arrival_ms, name)


def _arrivals(lines: Iterable[Line]) -> Iterator[_Arrival]:
    for line in lines:
        if line.content is not None and line.is_served and line.arrival_ms is not None:
            is_tomb = line.content.get("type") == TOMBSTONE
            name = line.content.get("target" if is_tomb else "id")
            key = _REMOVED if is_tomb else dedupe_key(line.content)
            for superseded in superseded_by(line.content):
                yield _REMOVED, line.arrival_ms, superseded
            yield key, line.arrival_ms, name if isinstance(name, str) else ""
