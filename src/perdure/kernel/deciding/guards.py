"""Guards against models that go round in circles: they end the goal.

They look at the calls that a model decided, in whichever goal. What commands, plans and flows decide is never ended for
repeating itself; only their own `retry` bounds them.
"""

from itertools import islice

from perdure.kernel.conversation.conversation import MOST_FRUITLESS
from perdure.kernel.events import Termination, ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState

TIMES = 3


def termination(state: GoalState) -> Termination | None:
    """Return the end of a goal in which the last three decisions of a model led nowhere."""
    said = state.conversation
    if not (state.governed or said.turns) or state.termination is not None:
        return None
    if said.fruitless >= MOST_FRUITLESS and not state.begun.mind.chat:
        return Termination("no_progress", f"The last {said.fruitless} answers were empty, cut off or refusals.")
    since = max(state.reopened_seq, said.message_seq)
    newest = (state.calls[call_id] for call_id in islice(reversed(state.governed), TIMES))
    last = [call for call in newest if call.outcome is not None and call.seq > since]
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
