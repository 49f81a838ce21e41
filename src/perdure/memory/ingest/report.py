"""What an adapter found, and what became of it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from perdure.errors import Invalid, PerdureError
from perdure.memory.record import Plain

LONGEST_TEXT = 4000
MOST_PATHS = 200
_AT_ONCE = 100


@dataclass
class Found:
    """The records that a source gives; `skipped` counts what was not usable, `errors` says why."""

    records: list[Plain] = field(default_factory=list)
    skipped: int = 0
    errors: list[str] = field(default_factory=list)

    def skip(self, why: str) -> None:
        """Go on without something."""
        self.skipped += 1
        self.errors.append(why)

    def extend(self, other: "Found") -> None:
        """Take over what another source gave."""
        self.records += other.records
        self.skipped += other.skipped
        self.errors += other.errors


class Target(Protocol):
    """The memory, as far as an adapter needs it."""

    def add_many(self, records: Sequence[Plain], *, skip_taken: bool) -> Sequence[Plain]:
        """See Memory.add_many."""
        ...


def store(found: Found, target: Target) -> dict[str, Any]:
    """Put what was found into a memory and say what became of it; a record whose id is there is a duplicate.

    The ids come from what the records tell of, so that the same source, read again years later, adds nothing. A record
    that was forgotten does not come back.
    """
    report: dict[str, Any] = {
        "added": 0,
        "duplicates": 0,
        "forgotten": 0,
        "skipped": found.skipped,
        "errors": list(found.errors),
    }
    for start in range(0, len(found.records), _AT_ONCE):
        part = found.records[start : start + _AT_ONCE]
        try:
            _store_part(part, target, report)
        except PerdureError as error:  # the memory itself: what comes after would fare no better
            done = report["added"] + report["duplicates"] + report["forgotten"]
            report["skipped"] += len(found.records) - done
            report["errors"].append(error.detail)
            break
    return report


def identity(kind: str, *parts: object) -> str:
    """Return the id of a record that tells of one thing in the world."""
    text = "\0".join(str(part) for part in parts)
    return f"{kind}-{hashlib.blake2b(text.encode(errors='replace'), digest_size=16).hexdigest()}"


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _store_part(part: list[Plain], target: Target, report: dict[str, Any]) -> None:
    """Let a record that is invalid not keep the others from being stored."""
    try:
        _store(part, target, report)
    except Invalid as error:
        if len(part) > 1:
            for record in part:
                _store_part([record], target, report)
        else:
            report["skipped"] += 1
            report["errors"].append(f"{part[0].get('title') or part[0].get('id')}: {error.detail}")


def _store(part: list[Plain], target: Target, report: dict[str, Any]) -> None:
    for answer in target.add_many(part, skip_taken=True):
        is_forgotten = answer.get("reason") == "forgotten"
        report["added" if answer["added"] else "forgotten" if is_forgotten else "duplicates"] += 1
