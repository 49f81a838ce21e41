"""What must be true of every random flow that has ended, however often it was killed."""

from collections import Counter
from collections.abc import Sequence

from perdure.kernel.events import Event, ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.replay import replay
from perdure.kernel.ports import Summary
from tests.faults.outside import Outside


def require_intact(events: Sequence[Event], summary: Summary) -> GoalState:
    """Check the hash chain, that nothing is settled twice, and that nothing is left open.

    A goal that was cancelled leaves its questions and waits as they are, but nothing that runs.
    """
    state = replay(events, summary).state
    assert state.termination is not None, "it has not ended"
    is_cancelled = state.termination.reason == "cancelled"
    left = [name for name, call in state.open_calls.items() if not is_cancelled or call.runs or call.is_child]
    assert not left, f"left open: {left}"
    return state


def require_promised_effects(state: GoalState, outside: Outside) -> None:
    """Check that every effect came as often as the class of its step promises."""
    keys = Counter(outside.effects())
    for call in state.calls.values():
        if isinstance(call.call, ToolCall) and call.call.tool == "step":
            place = _place(call)
            if place is not None:
                _require_promised(call, keys[place, f"{state.goal_id}/{call.call.call_id}"])
    once = {place for call in state.calls.values() if _is_once(call) and (place := _place(call)) is not None}
    for place, times in outside.by_place().items():
        assert place not in once or times <= 1 or _is_forever(state, place), f"once step {place} happened {times} times"


def _require_promised(call: CallState, times: int) -> None:
    is_done = call.outcome is not None and call.outcome.ok and call.unknown is None
    name, effect = call.call.call_id, getattr(call.call, "effect", "")
    assert effect != "once" or times <= 1, f"{name} was run {times} times under one key"
    assert not is_done or times >= 1, f"{name} has an outcome, and no effect"


def is_step(call: CallState) -> bool:
    """Return whether a call is a step whose intent was recorded."""
    return isinstance(call.call, ToolCall) and call.call.tool == "step" and call.call.effect != "pure"


def _is_once(call: CallState) -> bool:
    return isinstance(call.call, ToolCall) and call.call.effect == "once"


def _place(call: CallState) -> str | None:
    """Return the first argument of a step; a pure step has no intent, and so no arguments."""
    arguments = call.call.arguments.get("args") if isinstance(call.call, ToolCall) else None
    return str(arguments[0]) if arguments else None


def _is_forever(state: GoalState, place: str) -> bool:
    """Return whether a step never ends by itself: a person may have let it be run again."""
    return any(
        isinstance(call.call, ToolCall) and call.call.arguments.get("args") == [place] for call in state.calls.values()
    )
