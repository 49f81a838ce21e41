"""Updates of a key: a new record copies the values of the current one and supersedes it.

The log stays append-only. The current record is looked up without the lock. Under the lock, only the lines appended
since are read, and the look-up is repeated when one of them concerns the key.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.errors import Invalid, Unavailable
from perdure.memory.arguments import text_of
from perdure.memory.index.index import Index
from perdure.memory.index.terms import superseded_by, target_of
from perdure.memory.index.view import View
from perdure.memory.log.files import identity
from perdure.memory.log.lines import Line, line_of
from perdure.memory.log.log import Log, now_ms
from perdure.memory.log.reading import lines_of
from perdure.memory.normalise import normalised
from perdure.memory.record import JsonObject

_TRIES = 20
_OWN = ("id", "timestamp", "v", "key", "supersedes")
"""Keys that an update does not copy from the current record."""


@dataclass(frozen=True)
class _Current:
    """The current records of a key in the order of the log, and the file and offset for which that is known."""

    key: str
    records: Sequence[JsonObject] = ()
    file: tuple[int, int] | None = None
    upto: int = 0

    @property
    def ids(self) -> list[str]:
        return [record["id"] for record in self.records]

    def is_overtaken(self, fd: int, size: int, log: Log) -> bool:
        """Return whether a line that concerns the key was appended since; the log is locked."""
        if self.file is not None and identity(os.fstat(fd)) != self.file:
            return True
        return any(map(self._is_concerned, lines_of(fd, log.files.log, start=self.upto, end=size)))

    def _is_concerned(self, line: Line) -> bool:
        content = line.content or {}
        names = {content.get("id"), target_of(content), *superseded_by(content)} if line.is_served else set()
        return line.is_served and (content.get("key") == self.key or not names.isdisjoint([self.key, *self.ids]))


def update(log: Log, index: Index, name: str, changes: Mapping[str, Any]) -> JsonObject:
    """Store a record under a key, or in place of the record with an id, and supersede the current one.

    Raises: Invalid; Unavailable when other processes keep updating the same key; as `Log.append`.
    """
    _require_usable(name, changes)
    for _ in range(_TRIES):
        current = index.use(lambda view: _find_current(view, name)) or _Current(name)
        if not current.records and changes.get("type") is None:
            raise Invalid(f"No record has the key or the id {name!r}, and a new one needs a type.")
        record = normalised(_merged(current, changes), now_ms())
        if current.records and _content(record) == _content(current.records[-1]) and len(current.records) == 1:
            return {"added": False, "reason": "unchanged", "existing_id": current.ids[0]}
        if _append(log, current, record):
            return {"added": True, "id": record["id"], "key": current.key, "superseded": current.ids}
    raise _overtaken(name)


def complete(log: Log, index: Index, record: JsonObject) -> str | None:
    """Store a record in place of the first one with its id; return the new id, None if that is not current.

    Raises: Unavailable when other processes keep updating the record; as `Log.append`.
    """
    name = record["id"]
    for _ in range(_TRIES):
        current = index.use(lambda view: _find_current(view, name)) or _Current(name)
        if current.ids != [name]:
            return None
        given = {key: value for key, value in record.items() if key != "id"}
        completed = normalised({**given, "key": name, "supersedes": [name]}, now_ms())
        if _append(log, current, completed):
            return str(completed["id"])
    raise _overtaken(name)


def other_versions(view: View, record_id: str) -> list[str]:
    """Return the ids of the other versions of a record that are in the log."""
    found: list[str] = []
    waiting = [record_id, *(record["id"] for record in reversed(_find_current(view, record_id).records))]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop(0)
        row = None if name in seen else view.visible(name)
        seen.add(name)
        if row is not None and (result := view.read(row)) is not None:
            found.append(name)
            waiting += superseded_by(result[0].record)
    return [name for name in found if name != record_id]


def _overtaken(name: str) -> Unavailable:
    return Unavailable(f"Other processes keep updating {name!r}; nothing was stored. Try again.")


def _require_usable(name: str, changes: Mapping[str, Any]) -> None:
    if not text_of(name, "key").strip():
        raise Invalid("key is blank; expected the key or the id of a record.")
    if not isinstance(changes, Mapping):
        raise Invalid(f"An update must be an object, not {type(changes).__name__}.")
    for key in ("id", "key", "supersedes"):
        if changes.get(key) is not None:
            raise Invalid(f"An update cannot have {key!r}: the new record gets its own.")


def _find_current(view: View, name: str) -> _Current:
    """Find the current records of a key; else those of the record with that id, by its key or its id."""
    key, records = name, view.with_key(name)
    if not records and (row := view.visible(name)) is not None and (result := view.read(row)) is not None:
        record = result[0].record
        key = result[1].key or name
        records = view.with_key(key) or ([] if view.is_superseded(row) else [record])
    return _Current(key, records, view.file, view.upto)


def _merged(current: _Current, changes: Mapping[str, Any]) -> JsonObject:
    base = current.records[-1] if current.records else {}
    copied = {key: value for key, value in base.items() if key not in _OWN}
    merged = {**copied, **changes, "key": current.key}
    return {**merged, "supersedes": current.ids} if current.records else merged


def _content(record: JsonObject) -> JsonObject:
    return {key: value for key, value in record.items() if key not in _OWN}


def _append(log: Log, current: _Current, record: JsonObject) -> bool:
    """Append a record unless its key was updated meanwhile; return whether it was appended."""
    line = line_of(record, now_ms())
    is_appended = False

    def choose(fd: int, size: int) -> Sequence[bytes]:
        nonlocal is_appended
        is_appended = not current.is_overtaken(fd, size, log)
        return [line] if is_appended else []

    log.append_chosen(choose)
    return is_appended
