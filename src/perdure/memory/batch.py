"""A batch of records: all new ones are stored, or none when one is rejected."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from perdure.memory.dedupe import dedupe_key
from perdure.memory.index.ids import id_conflict, is_same
from perdure.memory.log.lines import line_of
from perdure.memory.normalise import INGESTED_TYPES, normalised
from perdure.memory.record import JsonObject


class _NewRecord(NamedTuple):
    record: JsonObject
    line: bytes
    has_own_id: bool
    is_dated: bool
    """Whether the caller gave a timestamp."""
    key: bytes


class Batch:
    """Normalised records, and the result for each."""

    def __init__(
        self, records: Sequence[Mapping[str, Any]], arrival_ms: int, *, dedupe: bool, skip_taken: bool
    ) -> None:
        """Raises: Invalid."""
        self.arrival_ms = arrival_ms
        self.new_records = [_new(record, arrival_ms) for record in records]
        self.names = {new.record["id"] for new in self.new_records if new.has_own_id}
        """The ids that callers chose."""
        self.keys = {new.key for new in self.new_records} if dedupe else set[bytes]()
        self.answers: list[JsonObject] = []
        self.with_paths: dict[int, JsonObject] = {}
        """The records whose stored form lacks the paths that they have, by their place in the batch."""
        self._skip_taken = skip_taken

    def all_added(self) -> list[JsonObject]:
        """Return the answers when everything was stored."""
        return [_added(new) for new in self.new_records]

    def choose(self, holders: Mapping[str, JsonObject | None], key_holders: Mapping[bytes, str]) -> list[bytes]:
        """Return the lines to write, given the records that hold the ids and the ids that hold the dedupe keys.

        A taken id without a record belongs to a forgotten record. The id is compared before the key: a caller that
        names a record gets that record, or a Conflict when its content differs.

        Raises: Conflict
        """
        holders, key_holders = dict(holders), dict(key_holders)
        chosen: list[bytes] = []
        conflicts: dict[int, str] = {}
        self.answers = []
        self.with_paths = {}
        for number, new in enumerate(self.new_records, 1):
            name = new.record["id"]
            if new.has_own_id and name in holders:
                stored = holders[name]
                if not self._skip_taken and (stored is None or not is_same(new.record, stored, is_dated=new.is_dated)):
                    conflicts[number if len(self.new_records) > 1 else 0] = name
                elif stored is not None and _lacks_paths(stored, new.record):
                    self.with_paths[number - 1] = new.record
                self.answers.append(_forgotten(name) if stored is None else _duplicate(name))
            elif new.key in key_holders:
                self.answers.append(_duplicate(key_holders[new.key]))
            else:
                holders[name] = new.record
                if new.key in self.keys:
                    key_holders[new.key] = name
                self.answers.append(_added(new))
                chosen.append(new.line)
        if conflicts:
            raise id_conflict(conflicts, holders)
        return chosen


def _new(record: Mapping[str, Any], arrival_ms: int) -> _NewRecord:
    stored = normalised(record, arrival_ms)
    has_own_id, is_dated = (record.get(key) is not None for key in ("id", "timestamp"))
    return _NewRecord(stored, line_of(stored, arrival_ms), has_own_id, is_dated, dedupe_key(stored))


def _lacks_paths(stored: JsonObject, new: JsonObject) -> bool:
    """Return whether a report was stored without paths, for example of a shallow clone, and now has some."""
    return stored.get("type") in INGESTED_TYPES and not stored.get("paths") and bool(new.get("paths"))


def _added(new: _NewRecord) -> JsonObject:
    return {"added": True, "id": new.record["id"]}


def _forgotten(name: str) -> JsonObject:
    return {"added": False, "reason": "forgotten", "existing_id": name}


def _duplicate(name: str) -> JsonObject:
    return {"added": False, "reason": "duplicate", "existing_id": name}
