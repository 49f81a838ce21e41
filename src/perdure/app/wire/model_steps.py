"""The prompts, messages and answers of a model in a goal, as every surface shows them beside the calls."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from perdure.kernel.conversation.conversation import text_of
from perdure.kernel.conversation.messages import Entry, Message, ModelTurn, TranscriptSummary
from perdure.kernel.conversation.parts import TokenUsage, ToolCallPart
from perdure.kernel.fold import GoalState

if TYPE_CHECKING:
    from perdure.app.wire.resources.goals import ModelStep

_Kind = Literal["prompt", "message", "turn", "summary", "failure"]
_LONGEST = 200


def model_steps(state: GoalState) -> "list[ModelStep]":
    """Return the prompts, messages, turns, summaries and the last failure of a goal, in the order of their events."""
    found: list[ModelStep] = sorted(_steps(state), key=lambda step: step["seq"])
    return found


def _steps(state: GoalState) -> "Iterator[ModelStep]":
    conversation = state.conversation
    for seq, prompt in conversation.prompts:
        yield _step(seq, "prompt", prompt.model, f"{len(prompt.tools)} tools", prompt.system)
    for seq, entry in conversation.entries:
        yield _entry_step(seq, entry)
    if conversation.failure is not None:
        failure = conversation.failure
        yield _step(conversation.failure_seq, "failure", failure.model, failure.code, failure.message)


def _entry_step(seq: int, entry: Entry) -> "ModelStep":
    match entry:
        case Message():
            return _step(seq, "message", None, entry.by, entry.text)
        case ModelTurn():
            return _measured(_step(seq, "turn", entry.model, _turn_note(entry), text_of(entry)), entry)
        case TranscriptSummary():
            about = f"of events {entry.from_seq}-{entry.to_seq}"
            return _measured(_step(seq, "summary", entry.model, about, entry.text), entry)


def _turn_note(turn: ModelTurn) -> str:
    calls = sum(isinstance(part, ToolCallPart) for part in turn.parts)
    if calls:
        return "1 call" if calls == 1 else f"{calls} calls"
    return "answered" if turn.finish_reason == "stop" else turn.finish_reason


def _measured(step: "ModelStep", entry: ModelTurn | TranscriptSummary) -> "ModelStep":
    """Return a step with its usage."""
    usage: TokenUsage = entry.usage
    return {
        **step,
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cost_usd": entry.cost_usd,
        "duration_ms": entry.duration_ms,
    }


def _step(seq: int, kind: _Kind, model: str | None, note: str, text: str) -> "ModelStep":
    return {
        "seq": seq,
        "kind": kind,
        "model": model,
        "state": note,
        "text": text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…",
        "input_tokens": None,
        "output_tokens": None,
        "cost_usd": None,
        "duration_ms": None,
    }
