"""The results of tool calls for a model: every call has exactly one, whatever its state."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from perdure.kernel.conversation.messages import ModelTurn
from perdure.kernel.conversation.parts import ToolCallPart
from perdure.kernel.events import Ask, ToolCall, ToolOutput
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.minds.model.ports import ToolResult

LARGEST = 32 * 1024
"""The maximum size of a result in a request; a longer one is reduced to its beginning and end."""
VOIDED = '{"error":"voided"}'


def result_of(state: GoalState, part: ToolCallPart) -> ToolResult:
    """Return the result of a call of a turn, shortened if it is long."""
    text, ok = result_text(state, part.call_id)
    return ToolResult(part.call_id, part.tool, _cut(text, state, part.call_id), ok)


def result_text(state: GoalState, call_id: str) -> tuple[str, bool]:
    """Return the whole result of a call as text, and whether it succeeded."""
    call = last_attempt(state, call_id)
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


def last_attempt(state: GoalState, call_id: str) -> CallState | None:
    """Return the call that a turn names, or its last attempt if a person had it run again; None after a fork."""
    call = state.calls.get(call_id)
    while call is not None and (later := state.calls.get(_next_id(call))) is not None:
        call = later
    return call


def attempts_to_make(state: GoalState) -> Sequence[ToolCall]:
    """Return the calls whose outcome was unknown and that a person has run again, as the attempts that follow.

    The person who decided it has seen the call: it needs no other approval.
    """
    retried = [call for call in state.calls.values() if call.is_retried]
    return [
        replace(call.call, call_id=_next_id(call), attempt=call.call.attempt + 1, by="person", after=None)
        for call in retried
        if isinstance(call.call, ToolCall) and _next_id(call) not in state.calls
    ]


def _next_id(call: CallState) -> str:
    attempt = call.call.attempt if isinstance(call.call, ToolCall) else 1
    return f"{call.call.step}.{attempt + 1}"


def is_voided(state: GoalState, turn: ModelTurn) -> bool:
    """Return whether a fork has voided all calls of a turn."""
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
    """Return a text, or its beginning and end with the parameters for `read_result`."""
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
