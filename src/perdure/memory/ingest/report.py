"""The findings of an adapter, and the report of what was stored."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from perdure.errors import Invalid, PerdureError
from perdure.memory.record import JsonObject

LONGEST_TEXT = 4000
MOST_PATHS = 200
_AT_ONCE = 100


@dataclass
class SourceRecords:
    """The records of a source; `skipped` counts its unusable entries, `errors` has a reason for each."""

    records: list[JsonObject] = field(default_factory=list)
    skipped: int = 0
    errors: list[str] = field(default_factory=list)

    def skip(self, why: str) -> None:
        """Count an unusable entry, and keep the reason."""
        self.skipped += 1
        self.errors.append(why)

    def extend(self, other: "SourceRecords") -> None:
        """Add the findings of another source."""
        self.records += other.records
        self.skipped += other.skipped
        self.errors += other.errors


class Target(Protocol):
    """The part of the memory that an adapter needs."""

    def add_many(self, records: Sequence[JsonObject], *, skip_taken: bool) -> Sequence[JsonObject]:
        """See Memory.add_many."""
        ...


def store(collected: SourceRecords, target: Target) -> dict[str, Any]:
    """Store findings, and report how many were added; a record whose id is taken is a duplicate.

    The ids are derived from the content, so that the same source, read again years later, adds nothing. A forgotten
    record is not added again.

    Raises: Unavailable, Denied, Damaged when the memory itself fails; the detail says how many were added before.
    """
    report: dict[str, Any] = {
        "added": 0,
        "duplicates": 0,
        "forgotten": 0,
        "skipped": collected.skipped,
        "errors": list(collected.errors),
    }
    for start in range(0, len(collected.records), _AT_ONCE):
        part = collected.records[start : start + _AT_ONCE]
        try:
            _store_part(part, target, report)
        except PerdureError as error:  # of the memory itself: the next part would fail, too
            if report["added"]:
                error.detail += f" {report['added']} records were added before."
            raise
    return report


def identity(kind: str, *parts: object) -> str:
    """Return an id that is derived from its source, so that the same event gives the same id."""
    text = "\0".join(str(part) for part in parts)
    return f"{kind}-{hashlib.blake2b(text.encode(errors='replace'), digest_size=16).hexdigest()}"


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return the first characters of a text."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _store_part(part: list[JsonObject], target: Target, report: dict[str, Any]) -> None:
    """Store the valid records even when others are invalid."""
    try:
        _store(part, target, report)
    except Invalid as error:
        if len(part) > 1:
            for record in part:
                _store_part([record], target, report)
        else:
            report["skipped"] += 1
            report["errors"].append(f"{part[0].get('title') or part[0].get('id')}: {error.detail}")


def _store(part: list[JsonObject], target: Target, report: dict[str, Any]) -> None:
    for answer in target.add_many(part, skip_taken=True):
        outcome = "forgotten" if answer.get("reason") == "forgotten" else "duplicates"
        if answer["added"]:
            outcome = "added"
        report[outcome] += 1
