"""What a fork does a second time, and what it cannot undo: told by the calls of the goal that it is forked from."""

from perdure.kernel.events import ToolCall
from perdure.kernel.fold import CallState, GoalState

_MAY_HAVE_HAPPENED = frozenset({"timeout", "bad_result", "cancelled", "signal"})
"""Error codes after which the effect of a `once` call may be there all the same.

`signal` is a program that was killed, maybe by the kernel for its memory after the effect.
"""


def may_have_happened(call: CallState) -> bool:
    """Tell whether a settled call that was not done may have had its effect."""
    if call.decision is not None and call.decision.decision in ("abort", "skip"):
        return True
    error = call.outcome.error if call.outcome else None
    if call.outcome is not None and call.outcome.happened is not None:
        return call.outcome.happened != "no"
    return _is_once(call) and error is not None and error.code in _MAY_HAVE_HAPPENED


def begun_once(state: GoalState) -> list[CallState]:
    """Return the open `once` calls whose effect may have happened; one that awaits approval was not begun."""
    return [call for call in state.open_calls.values() if _is_once(call) and not call.awaits_approval]


def unresolved_after(state: GoalState, seq: int) -> list[CallState]:
    """Return the `once` calls begun after an event that may have had their effect, and were not done for certain."""
    return [call for call in state.calls.values() if call.seq > seq and is_unresolved(call)]


def is_unresolved(call: CallState) -> bool:
    """Tell whether a `once` call may have had its effect, and no outcome and no decision says that it was done."""
    if not _is_once(call):
        return False
    if call.is_open:
        return not call.awaits_approval
    return not _is_done(call) and may_have_happened(call)


def done_after(state: GoalState, seq: int) -> list[str]:
    """Return the `once` steps that were done after an event, but not in a cleanup: a fork there does them again."""
    wanted = [call for call in state.calls.values() if state.cancel is None or call.seq < state.cancel_seq]
    calls = [call for call in wanted if (call.ended_seq or 0) > seq and _is_once(call)]
    return list(dict.fromkeys(call.call.step for call in calls if _is_done(call)))


def cleanup_steps(state: GoalState) -> list[str]:
    """Return the steps with an effect that the flow of a cancelled goal began to clean up."""
    calls = [call.call for call in state.calls.values() if state.cancel is not None and call.seq > state.cancel_seq]
    return list(dict.fromkeys(call.step for call in calls if isinstance(call, ToolCall) and call.effect != "pure"))


def _is_once(call: CallState) -> bool:
    return isinstance(call.call, ToolCall) and call.call.effect == "once"


def _is_done(call: CallState) -> bool:
    if call.outcome is not None:
        return call.outcome.ok
    return call.decision is not None and call.decision.decision == "skip"
