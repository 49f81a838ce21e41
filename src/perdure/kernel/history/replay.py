"""Fold a history again, and find what was changed in it since."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from perdure.errors import Damaged
from perdure.kernel.events import NO_HASH, Body, Event, encode, expected_hash
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.forking import fork_before_damage
from perdure.kernel.summary import Summary, summarise

_RESTORE = "Restore a backup from before the damage (`perdure db restore`)"


class DamagedEvent(Damaged):
    """The event `seq` of a goal is missing or is not what was written; those before it are intact."""

    def __init__(self, detail: str, seq: int) -> None:
        super().__init__(detail)
        self.seq = seq


@dataclass(frozen=True)
class Replayed:
    """A history that is as it was written, the state it leads to, and a hash of that state."""

    state: GoalState
    state_hash: str


def replay(events: Sequence[Event], summary: Summary) -> Replayed:
    """Fold a history after checking every event's hash, and that none is missing at the end.

    No model and no tool is called.

    Raises: Damaged, naming the seq.
    """
    require_unchanged(events, summary.goal_id)
    if len(events) < summary.last_seq:
        fault = f"is missing: {summary.last_seq} were written"
        raise damaged_event(summary.goal_id, len(events) + 1, fault, events)
    state = fold(events)
    require_same_row(state, summary)
    return Replayed(state, _hash(state))


def require_unchanged(events: Sequence[Event], goal_id: str, *, after: int = 0, previous: bytes = NO_HASH) -> bytes:
    """See that every event has the hash that follows from it and from the event before, and that none is missing.

    The events follow the one at seq `after`, which has the hash `previous`; the hash of the last is returned. It finds
    accidents and clumsy edits, not someone who rewrites the whole chain.

    Raises: Damaged, naming the seq.
    """
    for number, event in enumerate(events, after + 1):
        if event.seq != number:
            raise damaged_event(goal_id, number, "is missing", _intact(events, number, after))
        if expected_hash(event, previous) != event.hash:
            fault = "is not what was written: its hash does not fit"
            raise damaged_event(goal_id, event.seq, fault, _intact(events, number, after))
        previous = event.hash
    return previous


def damaged_event(goal_id: str, seq: int, fault: str, intact: Sequence[Event] = ()) -> DamagedEvent:
    """Return the error for the first damaged event of a goal, which says how to continue without it.

    `intact` are the events before it, where the caller has all of them: then the fork that is named repeats no effect.
    """
    remedy = _RESTORE
    if seq > 1:
        options = fork_before_damage(intact) if intact else f"--at {seq - 1}"
        remedy += f", or fork the goal before the damage (`perdure goal fork {goal_id} {options}`)"
    remedy += f", or delete it (`perdure goal delete {goal_id} --force`)"
    return DamagedEvent(f"Event {seq} of {goal_id} {fault}. {remedy}.", seq)


def _intact(events: Sequence[Event], number: int, after: int) -> Sequence[Event]:
    """Return the events before a damaged one, if they are a whole beginning."""
    return events[: number - 1] if after == 0 else ()


def require_same_row(state: GoalState, row: Summary) -> None:
    """Check that the row of a goal, which lists show, has what follows from its events.

    Raises: Damaged, naming the column.
    """
    told = summarise(state)
    for name in ("status", "reason", "waiting_for", "steps"):
        says, has = getattr(told, name), getattr(row, name)
        if says != has:
            raise Damaged(
                f"The row of {row.goal_id} has {name} {has!r}; its {told.last_seq} events say {says!r}. {_RESTORE}."
            )


def _hash(state: GoalState) -> str:
    calls = {
        call_id: [call.call.step, *(_text(body) for body in (call.outcome, call.unknown, call.decision, call.signal))]
        for call_id, call in state.calls.items()
    }
    content = [
        *(state.head.seq, state.status, state.used.iterations, state.limits, calls),
        *(_text(state.termination), _text(state.hold), [_text(body) for body in state.reopenings]),
    ]
    if state.conversation.said:
        content.append([_text(body) for _, body in state.conversation.said])
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _text(body: Body | None) -> str | None:
    """Take a part of the state as it would be written: it may be nested as deep as JSON allows."""
    return None if body is None else encode(body)[1]
