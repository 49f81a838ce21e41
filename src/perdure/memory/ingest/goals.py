"""Finished goals as records: the text of the goal, how it ended, and which step failed."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.memory.ingest.report import MOST_PATHS, identity, shortened
from perdure.memory.record import JsonObject

_SEVERITIES = {"done": "low", "cancelled": "low", "failed": "high", "repeated_failure": "high", "fatal_error": "high"}
_LONGEST_PART = 200


@dataclass(frozen=True)
class Ending:
    """The end of a goal; `failed` has each step that failed in this attempt."""

    goal_id: str
    text: str
    reason: str
    ended_ms: int
    detail: str | None = None
    failed: Sequence[tuple[str, str]] = ()
    paths: Sequence[str] = ()
    repo: str | None = None
    attempt: int = 1
    """The number of this attempt: a failed goal may be retried."""


def goal_outcome(ending: Ending) -> JsonObject:
    """Return the record of an end of a goal.

    Goals of the same text that end alike on one day (UTC), at the same attempt, have one record.
    """
    steps = [step for step, _ in ending.failed]
    last_step = steps[-1] if steps and ending.reason != "done" else ""
    fingerprint = ["goal", shortened(ending.text, _LONGEST_PART), ending.reason, shortened(last_step, _LONGEST_PART)]
    said = [ending.detail or "", *(f"{step}: {message}" for step, message in ending.failed)]
    where = f" in {last_step}" if last_step else ""
    day = ending.ended_ms // 86_400_000
    attempt = (ending.attempt,) if ending.attempt > 1 else ()
    return {
        "id": identity("goal", ending.repo or "", *fingerprint, day, *attempt),
        "type": "goal_outcome",
        "timestamp": ending.ended_ms,
        "severity": _SEVERITIES.get(ending.reason, "medium"),
        "source": "goals",
        "title": shortened(f"{ending.reason}{where}: {ending.text}", 300),
        "summary": shortened("\n".join(filter(None, said))),
        "fingerprint": fingerprint,
        "paths": list(ending.paths)[:MOST_PATHS],
        "metadata": {
            "goal_id": ending.goal_id,
            "reason": ending.reason,
            "attempt": ending.attempt,
            "failed_steps": steps[:MOST_PATHS],
        },
        **({"repo": ending.repo} if ending.repo else {}),
    }
