"""Verifies a history: its hashes, its completeness, and that its row matches the folded state."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from perdure.errors import Damaged
from perdure.kernel.events import NO_HASH, Body, Event, encode, expected_hash
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.forking import fork_before_damage
from perdure.kernel.summary import Summary, summarise

RESTORE = "Restore a backup from before the damage (`perdure db restore`)"
"""The next step after damage that Perdure cannot repair."""


class DamagedEvent(Damaged):
    """The event `seq` of a goal is missing or was changed; the events before it are intact."""

    def __init__(self, detail: str, seq: int) -> None:
        super().__init__(detail)
        self.seq = seq


@dataclass(frozen=True)
class Replayed:
    """The state of a verified history, and the hash of that state."""

    state: GoalState
    state_hash: str


def replay(events: Sequence[Event], summary: Summary) -> Replayed:
    """Check the hash of every event and that none is missing, and fold the history. Calls no model and no tool.

    Raises: Damaged, naming the seq of the event; or the column, when the row of the goal does not match its events.
    """
    require_unchanged(events, summary.goal_id)
    if len(events) < summary.last_seq:
        fault = f"is missing: the last event of this goal was {summary.last_seq}"
        raise damaged_event(summary.goal_id, len(events) + 1, fault, events)
    state = fold(events)
    require_same_row(state, summary)
    return Replayed(state, _hash(state))


def require_unchanged(events: Sequence[Event], goal_id: str, *, after: int = 0, previous: bytes = NO_HASH) -> bytes:
    """Check that the hash of every event matches and that no event is missing; return the hash of the last.

    The events follow the one at seq `after`, which has the hash `previous`. The check finds accidental damage and
    simple edits, but not an attacker who rewrites the whole chain.

    Raises: Damaged, naming the seq.
    """
    for number, event in enumerate(events, after + 1):
        if event.seq != number:
            raise damaged_event(goal_id, number, "is missing", _intact(events, number, after))
        if expected_hash(event, previous) != event.hash:
            fault = "was changed: its hash does not match"
            raise damaged_event(goal_id, event.seq, fault, _intact(events, number, after))
        previous = event.hash
    return previous


def damaged_event(goal_id: str, seq: int, fault: str, intact: Sequence[Event] = ()) -> DamagedEvent:
    """Return the error for the first damaged event of a goal, with the ways to continue without it.

    `intact` are the events before it, if the caller has all of them: then the offered fork repeats no effect.
    """
    remedy = RESTORE
    if seq > 1:
        options = fork_before_damage(intact) if intact else f"--at {seq - 1}"
        remedy += f", or fork the goal before the damage (`perdure goal fork {goal_id} {options}`)"
    remedy += f", or delete it (`perdure goal delete {goal_id} --force`)"
    return DamagedEvent(f"Event {seq} of {goal_id} {fault}. {remedy}.", seq)


def _intact(events: Sequence[Event], number: int, after: int) -> Sequence[Event]:
    """Return the events before a damaged one, if they start with the first."""
    return events[: number - 1] if after == 0 else ()


def require_same_row(state: GoalState, summary: Summary) -> None:
    """Check that the summary of a goal, which is its row in lists, matches its events.

    Raises: Damaged, naming the column.
    """
    expected = summarise(state)
    for name in ("status", "reason", "waiting_for", "steps"):
        value, stored = getattr(expected, name), getattr(summary, name)
        if value != stored:
            fault = f"has {name} {stored!r}; its {expected.last_seq} events say {value!r}"
            raise Damaged(f"The row of {summary.goal_id} {fault}. {RESTORE}.")


def _hash(state: GoalState) -> str:
    """Return the hash of the parts of a state that decide how the goal continues, to compare two folds of a history.

    A conversation is left out if it is empty, so that other goals keep the hash that earlier versions printed.
    """
    calls = {
        call_id: [call.call.step, *(_text(body) for body in (call.outcome, call.unknown, call.decision, call.signal))]
        for call_id, call in state.calls.items()
    }
    content = [
        state.head.seq,
        state.status,
        state.used.iterations,
        state.limits,
        calls,
        _text(state.termination),
        _text(state.hold),
        [_text(body) for body in state.reopenings],
    ]
    if state.conversation.entries:
        content.append([_text(body) for _, body in state.conversation.entries])
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _text(body: Body | None) -> str | None:
    """Return a part of the state as JSON text, which has no limit of nesting, unlike orjson on dataclasses."""
    return None if body is None else encode(body)[1]
