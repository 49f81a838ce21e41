"""Fold a history again, and find what was changed in it since."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from perdure.errors import Damaged
from perdure.kernel.events import NO_HASH, Event, expected_hash
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.ports import Summary


@dataclass(frozen=True)
class Replayed:
    """A history that is as it was written, the state it leads to, and a hash of that state."""

    state: GoalState
    state_hash: str


def replay(events: Sequence[Event], summary: Summary) -> Replayed:
    """Fold a history after checking every event's hash, and that none is missing at the end.

    No model and no tool is called. It finds accidents and clumsy edits, not someone who rewrites the whole chain.

    Raises: Damaged, naming the seq.
    """
    previous = NO_HASH
    for number, event in enumerate(events, 1):
        if event.seq != number:
            raise Damaged(f"Event {number} of {summary.goal_id} is missing.")
        if expected_hash(event, previous) != event.hash:
            raise Damaged(f"Event {event.seq} of {summary.goal_id} is not what was written: its hash does not fit.")
        previous = event.hash
    if len(events) < summary.last_seq:
        raise Damaged(f"Event {len(events) + 1} of {summary.goal_id} is missing: {summary.last_seq} were written.")
    state = fold(events)
    return Replayed(state, _hash(state))


def _hash(state: GoalState) -> str:
    calls = {
        call_id: [call.call.step, call.outcome, call.unknown, call.decision] for call_id, call in state.calls.items()
    }
    content = [state.tip.seq, state.status, state.used.iterations, state.limits, calls, state.termination]
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
