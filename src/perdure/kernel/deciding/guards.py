"""Guards that end the goal of a model that repeats itself without progress.

They check only calls that a model decided. Commands, plans and flows may repeat a call; their `retry` policy bounds it.
"""

from itertools import islice

from perdure.kernel.conversation.conversation import MOST_FRUITLESS
from perdure.kernel.events import Termination, ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState

TIMES = 3


def termination(state: GoalState) -> Termination | None:
    """Return the end of a goal whose model made no progress in its last three decisions."""
    conversation = state.conversation
    if not (state.governed or conversation.turns) or state.termination is not None:
        return None
    if conversation.fruitless >= MOST_FRUITLESS and not state.begun.mind.chat:
        return Termination("no_progress", f"The last {conversation.fruitless} answers were empty, cut off or refusals.")
    since = max(state.reopened_seq, conversation.message_seq)
    newest = (state.calls[call_id] for call_id in islice(reversed(state.governed), TIMES))
    last = [call for call in newest if call.outcome is not None and call.seq > since]
    if len(last) < TIMES:
        return None
    if _are_same([_error(call) for call in last]) and _error(last[0]) is not None:
        return Termination("repeated_failure", f"The same error came {TIMES} times: {_error(last[0])}")
    if _are_same([_call_and_result(call) for call in last]):
        return Termination("no_progress", f"The same call had the same result {TIMES} times.")
    return None


def _error(call: CallState) -> object:
    error = call.outcome.error if call.outcome else None
    return None if error is None else f"{error.code}: {error.message}"


def _call_and_result(call: CallState) -> object:
    what = (call.call.tool, call.call.arguments) if isinstance(call.call, ToolCall) else None
    outcome = call.outcome
    return (what, outcome.ok, outcome.output) if outcome else None


def _are_same(values: list[object]) -> bool:
    return all(value == values[0] for value in values)
