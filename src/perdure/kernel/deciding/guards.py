"""Guards against models that go round in circles: they end the goal.

They look at the calls that a model decided, in whichever goal. What commands, plans and flows decide is never ended for
repeating itself; only their own `retry` bounds them.
"""

from itertools import islice

from perdure.kernel.events import Termination, ToolCall
from perdure.kernel.fold import CallState, GoalState

TIMES = 3


def termination(state: GoalState) -> Termination | None:
    """Return the end of a goal in which the last three decisions of a model led nowhere."""
    if not (state.governed or state.messages) or state.termination is not None:
        return None
    if state.used.iterations - state.called_iteration >= TIMES:
        return Termination("no_progress", f"The last {TIMES} decisions were messages only.")
    newest = (state.calls[call_id] for call_id in islice(reversed(state.governed), TIMES))
    last = [call for call in newest if call.outcome is not None and call.seq > state.reopened_seq]
    if len(last) < TIMES:
        return None
    if _are_same([_error(call) for call in last]) and _error(last[0]) is not None:
        return Termination("repeated_failure", f"The same error came {TIMES} times: {_error(last[0])}")
    if _are_same([_deed(call) for call in last]):
        return Termination("no_progress", f"The same call had the same result {TIMES} times.")
    return None


def _error(call: CallState) -> object:
    error = call.outcome.error if call.outcome else None
    return None if error is None else f"{error.code}: {error.message}"


def _deed(call: CallState) -> object:
    what = (call.call.tool, call.call.arguments) if isinstance(call.call, ToolCall) else None
    outcome = call.outcome
    return (what, outcome.ok, outcome.output) if outcome else None


def _are_same(values: list[object]) -> bool:
    return all(value == values[0] for value in values)
