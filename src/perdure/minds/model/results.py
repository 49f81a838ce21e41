"""The results of tool calls, as a model is shown them: every call has exactly one, whatever became of it."""

from typing import Any

import orjson

from perdure.kernel.conversation.messages import ModelTurn
from perdure.kernel.conversation.parts import ToolCallPart
from perdure.kernel.events import Ask, ToolOutput
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.minds.model.ports import ToolResult

LARGEST = 32 * 1024
"""How many bytes of a result a request has; of a longer one, it has the beginning and the end."""
VOIDED = '{"error":"voided"}'


def result_of(state: GoalState, part: ToolCallPart) -> ToolResult:
    """Return the result of a call of a turn, cut where it is long."""
    text, ok = result_text(state, part.call_id)
    return ToolResult(part.call_id, part.tool, _cut(text, state, part.call_id), ok)


def result_text(state: GoalState, call_id: str) -> tuple[str, bool]:
    """Return the whole result of a call as text, and whether it went well."""
    call = state.calls.get(call_id)
    if call is None:
        return VOIDED, False
    if call.outcome is not None:
        return _of_outcome(call, call.outcome)
    if call.decision is None:
        return _json({"error": "open"}), False
    match call.decision.decision:
        case "answer" | "skip":
            return _text(call.decision.value), True
        case other:
            return _json({"error": other}), False


def is_voided(state: GoalState, turn: ModelTurn) -> bool:
    """Tell whether none of the calls of a turn is in the history any more, because of a fork."""
    calls = [part for part in turn.parts if isinstance(part, ToolCallPart)]
    return bool(calls) and all(part.call_id not in state.calls for part in calls)


def _of_outcome(call: CallState, outcome: ToolOutput) -> tuple[str, bool]:
    if outcome.ok:
        return _text(outcome.output), True
    error = outcome.error
    about: dict[str, Any] = {"error": "failed"} if error is None else {"error": error.code, "message": error.message}
    if outcome.output is not None:
        about["output"] = outcome.output
    if isinstance(call.call, Ask):
        about["question"] = call.call.question
    return _json(about), False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _cut(text: str, state: GoalState, call_id: str) -> str:
    """Return a text, or its beginning and its end with what to read the rest by."""
    data = text.encode()
    if len(data) <= LARGEST:
        return text
    half = LARGEST // 2
    head, tail = data[:half].decode(errors="ignore"), data[-half:].decode(errors="ignore")
    left_out = len(text) - len(head) - len(tail)
    seq = state.calls[call_id].ended_seq
    note = (
        f"\n[{left_out:,} characters left out; the whole result is event {seq}."
        f' Read more with read_result {{"call_id": "{call_id}", "offset": {len(head)}}}]\n'
    )
    return f"{head}{note}{tail}"
