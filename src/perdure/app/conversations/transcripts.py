"""Converts events of a conversation to entries of its transcript."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from perdure.app.wire.calls import failure_wire
from perdure.kernel.conversation.messages import Message, ModelTurn, TranscriptSummary
from perdure.kernel.events import Decision, Event, ToolOutput, decode
from perdure.text.moments import iso

if TYPE_CHECKING:
    from perdure.app.wire.resources.chat.conversations import TranscriptEntry

_SAYING = frozenset({"message", "model_turn", "tool_output", "decision", "summary"})
"""The types of events that a transcript has."""


def entry_of(event: Event) -> "TranscriptEntry | None":
    """Return an event as an entry; None for an event without one, such as an approval.

    Raises: Damaged
    """
    said = _said(event) if event.type in _SAYING else None
    if said is None:
        return None
    return cast("TranscriptEntry", {"seq": event.seq, "kind": event.type, "at": iso(event.timestamp_us), **said})


def _said(event: Event) -> dict[str, Any] | None:
    body = decode(event)
    match body:
        case Message():
            return {"role": body.role, "text": body.text, "by": body.by, "refs": list(body.refs)}
        case ModelTurn():
            return _turn(body, event)
        case ToolOutput():
            error = None if body.error is None else failure_wire(body.error)
            outcome = {"ok": body.ok, "output": body.output, "error": error}
            return {"call_id": body.call_id, **outcome, "duration_ms": body.duration_ms}
        case Decision() if body.decision != "approve":
            return {"call_id": body.call_id, "decision": body.decision, "value": body.value, "by": body.by}
        case TranscriptSummary():
            return {"from_seq": body.from_seq, "to_seq": body.to_seq, "text": body.text, "model": body.model}
        case _:
            return None


def _turn(turn: ModelTurn, event: Event) -> dict[str, Any]:
    """Return a turn without the opaque data of its provider."""
    parts = [
        {name: value for name, value in part.items() if name != "opaque"} for part in event.content().get("parts", ())
    ]
    used = {"usage": asdict(turn.usage), "cost_usd": turn.cost_usd, "duration_ms": turn.duration_ms}
    about = {"turn": turn.turn, "model": turn.model, "parts": parts, "finish_reason": turn.finish_reason}
    return {**about, **used, "truncated": turn.truncated}
