"""Converts finished goals to records: the text of the goal, how it ended, and which steps failed."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.memory.ingest.report import MOST_PATHS, identity, shortened
from perdure.memory.record import JsonObject

_SEVERITIES = {"done": "low", "cancelled": "low", "failed": "high", "repeated_failure": "high", "fatal_error": "high"}
_LONGEST_PART = 200


@dataclass(frozen=True)
class GoalEnd:
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


def goal_outcome(end: GoalEnd) -> JsonObject:
    """Return the record of an end of a goal.

    Goals with the same text, the same result, the same attempt and the same day (UTC) have one record.
    """
    steps = [step for step, _ in end.failed]
    last_step = steps[-1] if steps and end.reason != "done" else ""
    fingerprint = ["goal", shortened(end.text, _LONGEST_PART), end.reason, shortened(last_step, _LONGEST_PART)]
    lines = [end.detail or "", *(f"{step}: {message}" for step, message in end.failed)]
    where = f" in {last_step}" if last_step else ""
    day = end.ended_ms // 86_400_000
    attempt = (end.attempt,) if end.attempt > 1 else ()
    return {
        "id": identity("goal", end.repo or "", *fingerprint, day, *attempt),
        "type": "goal_outcome",
        "timestamp": end.ended_ms,
        "severity": _SEVERITIES.get(end.reason, "medium"),
        "source": "goals",
        "title": shortened(f"{end.reason}{where}: {end.text}", 300),
        "summary": shortened("\n".join(filter(None, lines))),
        "fingerprint": fingerprint,
        "paths": list(end.paths)[:MOST_PATHS],
        "metadata": {
            "goal_id": end.goal_id,
            "reason": end.reason,
            "attempt": end.attempt,
            "failed_steps": steps[:MOST_PATHS],
        },
        **({"repo": end.repo} if end.repo else {}),
    }
