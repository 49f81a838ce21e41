"""When two records tell of the same thing."""

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

import orjson

from perdure.memory.lines import Line
from perdure.memory.reading import lines_backwards, lines_of
from perdure.memory.record import Plain

WINDOW_MS = 24 * 60 * 60 * 1000
"""So long after the first one of a kind arrived, another one is a duplicate."""

_CLOCKS_DIFFER_MS = 60_000
"""Writers take the time before they take the lock, so lines may stand a little out of order."""
_PARTS = ("type", "repo", "sha", "fingerprint", "pr_number")


def dedupe_key(record: Mapping[str, Any]) -> bytes:
    """Return what is equal for records that tell of the same thing."""
    parts: Plain = {name: record.get(name) for name in _PARTS}
    if not (_is_given(parts["sha"]) or _is_given(parts["fingerprint"])):
        parts["title"] = record.get("title")
    if str(record.get("type", "")).startswith("deploy"):
        metadata = record.get("metadata")
        parts["conclusion"] = metadata.get("conclusion") if isinstance(metadata, dict) else None
    given = {name: value for name, value in parts.items() if _is_given(value)}
    text = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=16).digest()


def _is_given(value: object) -> bool:
    return bool(value.strip()) if isinstance(value, str) else value is not None and value != []


class KeyIndex(Protocol):
    """Finds by dedupe key what an index has taken in of a log."""

    def covered(self, fd: int) -> int | None:
        """Return the offset up to which the index knows the log that is open here; None when it knows another."""
        ...

    def first_with(self, keys: Collection[bytes], since_ms: int) -> Mapping[bytes, str]:
        """Return the id of the first record of each key that arrived since then."""
        ...


class Recent:
    """What arrived within the window, by dedupe key; reads each part of a log once. Used under the log's lock."""

    def __init__(self, log: Path, index: KeyIndex | None = None) -> None:
        self._log = log
        self._index = index
        self._file = (0, 0)
        self._from = self._upto = 0
        self._first: dict[bytes, tuple[int, str]] = {}

    def find(self, keys: Collection[bytes], fd: int, size: int, since_ms: int) -> dict[bytes, str]:
        """Return the id of the first record that arrived since then, for each key that has one."""
        covered = self._index.covered(fd) if self._index is not None else None
        if not self._goes_on(fd, size, covered):
            self._begin(fd, size, covered, since_ms)
        self._take(lines_of(fd, self._log, start=self._upto, end=size))
        self._upto = size
        known = dict(self._index.first_with(keys, since_ms)) if self._index is not None and self._from > 0 else {}
        for key in keys:
            arrived_ms, name = self._first.get(key, (-1, ""))
            if arrived_ms >= since_ms:
                known.setdefault(key, name)
        return known

    def _goes_on(self, fd: int, size: int, covered: int | None) -> bool:
        """Tell whether the log is the one that was read before, and the index still knows what was not read."""
        found = os.fstat(fd)
        is_same = (found.st_dev, found.st_ino) == self._file and size >= self._upto
        return is_same and (self._from == 0 or (covered is not None and covered >= self._from))

    def _begin(self, fd: int, size: int, covered: int | None, since_ms: int) -> None:
        found = os.fstat(fd)
        self._first.clear()
        self._file = (found.st_dev, found.st_ino)
        if covered:
            self._from = self._upto = covered
            return
        self._from, self._upto = 0, size
        recent = takewhile(
            lambda line: line.arrival_ms is None or line.arrival_ms >= since_ms - _CLOCKS_DIFFER_MS,
            lines_backwards(fd, self._log, end=size),
        )
        self._take(reversed(list(recent)))

    def _take(self, lines: Iterable[Line]) -> None:
        for line in lines:
            if line.content is None or not line.is_served or line.arrival_ms is None:
                continue
            key = dedupe_key(line.content)
            if key not in self._first or line.arrival_ms - self._first[key][0] > WINDOW_MS:
                self._first[key] = (line.arrival_ms, str(line.content.get("id", "")))
