"""Records that are added together, and which of them are stored: all that are new, or none when one is refused."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from perdure.memory.dedupe import dedupe_key
from perdure.memory.index.ids import is_same, refused
from perdure.memory.log.lines import line_of
from perdure.memory.normalise import normalised
from perdure.memory.record import Plain


class _New(NamedTuple):
    record: Plain
    line: bytes
    has_own_id: bool
    is_dated: bool
    """Whether the time is one that the caller gave."""
    key: bytes


class Batch:
    """Records as they are to be stored, and what becomes of each."""

    def __init__(
        self, records: Sequence[Mapping[str, Any]], arrival_ms: int, *, dedupe: bool, skip_taken: bool
    ) -> None:
        """Raises: Invalid."""
        self.arrival_ms = arrival_ms
        self.news = [_new(record, arrival_ms) for record in records]
        self.names = {new.record["id"] for new in self.news if new.has_own_id}
        """The ids that callers chose."""
        self.keys = {new.key for new in self.news} if dedupe else set[bytes]()
        self.answers: list[Plain] = []
        self._skip_taken = skip_taken

    def all_added(self) -> list[Plain]:
        """Return the answers when everything was stored."""
        return [_added(new) for new in self.news]

    def choose(self, held: Mapping[str, Plain | None], known: Mapping[bytes, str]) -> list[bytes]:
        """Return the lines to be written, given the records with taken ids and the ids of records with known keys.

        A taken id without a record is that of a forgotten one.
        An id is looked at before a key: who names a record wants that record, and is told when it says something else.

        Raises: Conflict
        """
        held, known = dict(held), dict(known)
        chosen: list[bytes] = []
        conflicts: dict[int, str] = {}
        self.answers = []
        for number, new in enumerate(self.news, 1):
            name = new.record["id"]
            if new.has_own_id and name in held:
                there = held[name]
                if not self._skip_taken and (there is None or not is_same(new.record, there, is_dated=new.is_dated)):
                    conflicts[number if len(self.news) > 1 else 0] = name
                self.answers.append(_forgotten(name) if there is None else _duplicate(name))
            elif new.key in known:
                self.answers.append(_duplicate(known[new.key]))
            else:
                held[name] = new.record
                if new.key in self.keys:
                    known[new.key] = name
                self.answers.append(_added(new))
                chosen.append(new.line)
        if conflicts:
            raise refused(conflicts, held)
        return chosen


def _new(record: Mapping[str, Any], arrival_ms: int) -> _New:
    found = normalised(record, arrival_ms)
    has_own_id, is_dated = (record.get(key) is not None for key in ("id", "timestamp"))
    return _New(found, line_of(found, arrival_ms), has_own_id, is_dated, dedupe_key(found))


def _added(new: _New) -> Plain:
    return {"added": True, "id": new.record["id"]}


def _forgotten(name: str) -> Plain:
    return {"added": False, "reason": "forgotten", "existing_id": name}


def _duplicate(name: str) -> Plain:
    return {"added": False, "reason": "duplicate", "existing_id": name}
