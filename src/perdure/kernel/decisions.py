"""Which decisions fit a goal as it is, and the events that they become."""

from collections.abc import Mapping
from typing import Any

from perdure.errors import Conflict, Invalid
from perdure.kernel.events import Ask, Body, Decision, ToolError, ToolOutput, Verdict, fingerprint
from perdure.kernel.fold import CallState, GoalState

BY_PERSON: tuple[Verdict, ...] = ("approve", "deny", "answer", "retry", "skip", "abort")
"""What somebody may decide; a timer's `elapsed` is the kernel's own."""


def choose(state: GoalState, verdict: str, call_id: str | None, value: Any = None) -> Decision:
    """Make the decision that settles a call; without an id, the only one that it fits.

    Raises: Invalid when it is no decision, or no answer to the question; Conflict when it fits nothing that is open.
    """
    if verdict not in BY_PERSON:
        raise Invalid(f"{verdict!r} is no decision; known are {', '.join(BY_PERSON)}.")
    fitting = [call for call in state.open_calls.values() if _fits(call, verdict)]
    chosen = [call for call in fitting if call_id in (None, call.call.call_id)]
    if len(chosen) != 1:
        raise _refusal(state, verdict, call_id, [call.call.call_id for call in fitting])
    call = chosen[0].call
    if isinstance(call, Ask) and call.options is not None and value not in call.options:
        raise Invalid(f"{value!r} is no answer to {call.question!r}; it has the options {', '.join(call.options)}.")
    shown = fingerprint(call) if verdict in ("approve", "deny") else None
    return Decision(call.call_id, verdict, value, shown_sha256=shown)


def events_of(state: GoalState, payload: Mapping[str, Any]) -> list[Body]:
    """Return what a posted decision becomes; nothing when it no longer fits what is open, or other bytes were shown."""
    decision = Decision(**payload)
    call = state.open_calls.get(decision.call_id)
    if call is None or not _fits(call, decision.decision):
        return []
    if decision.shown_sha256 is not None and decision.shown_sha256 != fingerprint(call.call):
        return []
    return [decision, *([denied(decision)] if decision.decision == "deny" else [])]


def denied(decision: Decision) -> ToolOutput:
    """Return the outcome of a call that was not allowed."""
    why = f": {decision.value}" if decision.value else ""
    return ToolOutput(decision.call_id, ok=False, error=ToolError("denied", f"Denied by {decision.by}{why}."))


def _fits(call: CallState, verdict: str) -> bool:
    match verdict:
        case "approve" | "deny":
            return call.awaits_approval
        case "answer":
            return isinstance(call.call, Ask)
        case "retry" | "skip" | "abort":
            return call.unknown is not None
        case _:
            return False


def _refusal(state: GoalState, verdict: str, call_id: str | None, fitting: list[str]) -> Conflict:
    if call_id is None and fitting:
        return Conflict(f"Several calls of {state.goal_id} can take {verdict!r}: name one of {', '.join(fitting)}.")
    what = "Nothing" if call_id is None else f"No call {call_id!r}"
    instead = f"; {', '.join(fitting)} would" if fitting else ""
    is_open = f"; open is {', '.join(state.open_calls)}" if state.open_calls and not fitting else ""
    return Conflict(f"{what} in {state.goal_id} waits for {verdict!r}{instead}{is_open}.")
