"""Adds finished goals to the memory."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from perdure.app.goals.goals import Goals
from perdure.app.memory.memory import HomeMemory
from perdure.errors import PerdureError
from perdure.kernel.events import Event, ToolCall
from perdure.kernel.fold import GoalState, apply, fold
from perdure.kernel.history.replay import require_unchanged
from perdure.memory.ingest.git import Repository
from perdure.memory.ingest.goals import GoalEnd, goal_outcome
from perdure.memory.ingest.report import MOST_PATHS, SourceRecords
from perdure.statuses import FINAL

_WORD = re.compile(r"[\w.+@-]+(?:/[\w.+@-]+)*")
_MOST_WORDS = 5000


async def ingest_goals(
    goals: Goals, memory: HomeMemory, ids: Sequence[str], *, limit: int, only_failed: bool
) -> dict[str, Any]:
    """Add finished goals to the memory: those with the given ids, else the newest; see HomeMemory.ingest.

    A goal that was retried has several ends; each becomes a record.
    """
    collected = SourceRecords()
    histories: list[Sequence[Event]] = []
    for goal_id in ids or await _newest(goals, limit, only_failed=only_failed):
        try:
            events = await goals.history((await goals.get(goal_id)).id)
            require_unchanged(events, goal_id)
        except PerdureError as error:
            collected.skip(f"{goal_id}: {error.detail}")
            continue
        if not any(_is_own_end(event, events[-1].goal_id) for event in events):
            collected.skip(f"{goal_id} has not ended.")
        histories.append(events)

    def ends() -> list[GoalEnd]:
        each = [end for events in histories for end in _ends(events)]
        return [end for end in each if not (only_failed and end.reason == "done")]

    return await memory.ingest(lambda: _with_ends(collected, ends()))


async def _newest(goals: Goals, limit: int, *, only_failed: bool) -> list[str]:
    statuses = FINAL - {"done"} if only_failed else FINAL
    views = [view for status in sorted(statuses) for view in await goals.list(limit=limit, status=status)]
    newest = sorted(views, key=lambda view: view.summary.created_us, reverse=True)
    return [view.summary.goal_id for view in newest[:limit]]


def _with_ends(collected: SourceRecords, ends: Sequence[GoalEnd]) -> SourceRecords:
    collected.records += [goal_outcome(end) for end in ends]
    return collected


def _is_own_end(event: Event, goal_id: str) -> bool:
    """Return whether an event ended this goal; a fork also has events of its origin."""
    return event.type == "termination" and event.goal_id == goal_id


def _ends(events: Sequence[Event]) -> Iterator[GoalEnd]:
    """Yield each end of a goal, with the state of the goal at that time."""
    state = fold(events[:1])
    for event in events[1:]:
        apply(state, event)
        if _is_own_end(event, events[-1].goal_id):
            yield _end_of(state)


def _attempt(state: GoalState) -> int:
    """Return the number of the goal's present attempt; attempts of the origin of a fork do not count."""
    fork_seq = state.begun.forked_from.seq if state.begun.forked_from else 0
    return 1 + sum(reopened.ended_seq >= fork_seq for reopened in state.reopenings)


def _end_of(state: GoalState) -> GoalEnd:
    ended = state.termination
    failed = [
        (call.call.step, call.outcome.error.message if call.outcome.error else "failed")
        for call in state.calls.values()
        if call.outcome is not None and not call.outcome.ok and (call.ended_seq or 0) > state.reopened_seq
    ]
    reason, detail = ("", None) if ended is None else (ended.reason, ended.detail)
    paths, repo = [], None
    workdir = Path(state.begun.workdir) if state.begun.workdir else None
    if workdir is not None and workdir.is_dir():
        paths, repo = _paths(state, workdir), Repository(workdir).name()
    return GoalEnd(
        goal_id=state.goal_id,
        text=state.begun.text,
        reason=reason,
        ended_ms=state.updated_us // 1000,
        detail=detail,
        failed=failed,
        attempt=_attempt(state),
        paths=paths,
        repo=repo,
    )


def _paths(state: GoalState, workdir: Path) -> list[str]:
    """Return the files in the folder of a goal that its calls name, relative to the repository if there is one."""
    try:
        prefix = os.path.relpath(workdir, Repository(workdir).root())
    except PerdureError:
        prefix = "."
    words = dict.fromkeys(word for call in state.calls.values() for word in _words(call.call))
    existing = [word for word in list(words)[:_MOST_WORDS] if ".." not in word and os.path.isfile(workdir / word)]  # noqa: PTH113 (no name is too long for it)
    return [os.path.normpath(f"{prefix}/{word}") for word in existing[:MOST_PATHS]]


def _words(call: object) -> Iterator[str]:
    if isinstance(call, ToolCall):
        yield from _WORD.findall(" ".join(_texts(call.arguments)))


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from _texts(inner)
        case list() | tuple():
            for inner in value:
                yield from _texts(inner)
