"""The memory as callers see it: add, find, keep in order. Synchronous; `p.memory` runs it in a thread."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perdure.memory.dedupe import WINDOW_MS, Recent, dedupe_key
from perdure.memory.lines import line_of
from perdure.memory.log import Log, now_ms
from perdure.memory.normalise import normalised
from perdure.memory.places import LOG_FILE, Places
from perdure.memory.reading import iter_records
from perdure.memory.record import Plain


class Memory:
    """One memory; threads may share it, processes may use the same folder at once."""

    def __init__(self, folder: Path) -> None:
        self.places = Places(folder / LOG_FILE)
        self._log = Log(self.places)
        self._recent = Recent(self.places.log)

    def add(self, record: Mapping[str, Any], *, dedupe: bool = True) -> Plain:
        """Store a record, unless the same was stored within a day; return whether, and under which id.

        Raises: Invalid; Unavailable; Denied; Damaged.
        """
        return self.add_many([record], dedupe=dedupe)[0]

    def add_many(self, records: Sequence[Mapping[str, Any]], *, dedupe: bool = True) -> list[Plain]:
        """Store several records with one write and one flush; all or, when one is invalid, none.

        Raises: what `add` raises.
        """
        arrival_ms = now_ms()
        news = [normalised(record, arrival_ms) for record in records]
        lines = [line_of(record, arrival_ms) for record in news]
        if not dedupe:
            self._log.append(lines)
            return [_added(record) for record in news]
        answers: list[Plain] = []
        keys = [dedupe_key(record) for record in news]

        def choose(fd: int, size: int) -> Sequence[bytes]:
            known = self._recent.find(set(keys), fd, size, arrival_ms - WINDOW_MS)
            chosen = []
            for record, key, line in zip(news, keys, lines, strict=True):
                if key in known:
                    answers.append({"added": False, "reason": "duplicate", "existing_id": known[key]})
                else:
                    known[key] = record["id"]
                    answers.append(_added(record))
                    chosen.append(line)
            return chosen

        self._log.append_chosen(choose)
        return answers

    def iter(self) -> Iterator[Plain]:
        """Give all records, oldest first."""
        return iter_records(self.places.log)

    def close(self) -> None:
        """Close all files."""
        self._log.close()


def _added(record: Plain) -> Plain:
    return {"added": True, "id": record["id"]}
