"""The events that record cancelled calls."""

from dataclasses import replace

from perdure.kernel.events import Decision, Happened, ToolCall, ToolError, ToolOutput
from perdure.kernel.history.call_state import CallState

CANCELLED = "cancelled"
"""The error code of a cancelled call."""
_EFFECTS: dict[Happened, str] = {
    "yes": "its check says that its effect exists",
    "no": "its check says that it had no effect",
    "unknown": "whether its effect exists is not known",
}


def cancelled(call: CallState, now_us: int, happened: Happened | None = None) -> ToolOutput | Decision:
    """Return the event that settles an open call that the flow has cancelled.

    The effect of a `once` call is unknown unless its check knows; it is never retried.
    """
    if not isinstance(call.call, ToolCall):
        return Decision(call.call.call_id, "cancel", by="flow")
    return cancelled_call(call, now_us, happened)


def cancelled_call(call: CallState, now_us: int, happened: Happened | None = None) -> ToolOutput:
    """Return the outcome of a step or a child that the flow has cancelled. See `cancelled`."""
    if isinstance(call.call, ToolCall) and call.call.effect == "once":
        happened = happened or _known_from_check(call)
    message = "The flow cancelled it" + ("." if happened is None else _effect(happened))
    duration_ms = max(now_us - call.began_us, 0) // 1000
    error = ToolError(CANCELLED, message, retryable=False)
    return ToolOutput(call.call.call_id, ok=False, error=error, duration_ms=duration_ms, happened=happened)


def cut_off_call(call: CallState, now_us: int, happened: Happened | None = None) -> ToolOutput:
    """Return the outcome of a step or a child that ran when its goal was cancelled.

    Unlike the outcome of a call that the flow cancels, it does not rule out further attempts.
    """
    outcome = cancelled_call(call, now_us, happened)
    message = "The goal was cancelled while this ran" + ("." if outcome.happened is None else _effect(outcome.happened))
    return replace(outcome, error=ToolError(CANCELLED, message))


def is_cut_off(call: CallState) -> bool:
    """Return whether a call ended because its goal was cancelled, and not because the flow cancelled it."""
    error = call.outcome.error if call.outcome is not None else None
    return error is not None and error.code == CANCELLED and error.retryable is None


def _effect(happened: Happened) -> str:
    return f"; {_EFFECTS[happened]}."


def _known_from_check(call: CallState) -> Happened:
    """Return whether a `once` call that does not run had its effect: `no` if recovery has asked its check."""
    has_not_happened = call.decision is not None and call.decision.by == "check"
    return "no" if has_not_happened else "unknown"


def is_cancelled_by_flow(call: CallState) -> bool:
    """Return whether a call ended because the flow cancelled it."""
    if call.decision is not None and call.decision.decision == "cancel":
        return True
    error = call.outcome.error if call.outcome is not None else None
    return error is not None and error.code == CANCELLED
