"""The tools that the kernel implements: a question to a person, and the end of the goal."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perdure.errors import Invalid
from perdure.kernel.events import Ask, Body, Termination, ToolCall
from perdure.kernel.tool import ToolSpec


@dataclass(frozen=True, slots=True)
class KernelTool:
    """A tool whose call is replaced by another event."""

    spec: ToolSpec
    answer: Callable[[ToolCall], Body]
    """Returns the event. Raises: Invalid for invalid arguments."""
    is_alone: bool = False
    """Whether it is rejected beside other calls."""


def _question(call: ToolCall) -> Ask:
    question, options = call.arguments.get("question"), call.arguments.get("options")
    _require_known(call, "question", "options")
    if not isinstance(question, str) or not question.strip():
        raise Invalid("`ask` requires `question`, a string.")
    if options is not None and not _are_texts(options):
        raise Invalid("`options` of `ask` must be a list of at least one string.")
    return Ask(call.call_id, call.step, question, None if options is None else tuple(options))


def _end(call: ToolCall) -> Termination:
    _require_known(call, "value")
    return Termination("done", value=call.arguments.get("value"))


def _block(call: ToolCall) -> Termination:
    reason = call.arguments.get("reason")
    _require_known(call, "reason")
    if not isinstance(reason, str) or not reason.strip():
        raise Invalid("`blocked` requires `reason`, a string.")
    return Termination("blocked", reason)


def _require_known(call: ToolCall, *names: str) -> None:
    if unknown := sorted(call.arguments.keys() - set(names)):
        raise Invalid(f"{call.tool} has no argument {unknown[0]!r}. It has: {', '.join(names)}.")


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(text, str) for text in value)


_ASK = ToolSpec(
    "ask",
    "Asks a person a question and waits for the answer. Use it when a decision is not yours to make.",
    {
        "type": "object",
        "properties": {
            "question": {"type": "string", "pattern": r"\S", "description": "The question, in one or two sentences."},
            "options": {
                "type": ["array", "null"],
                "items": {"type": "string"},
                "minItems": 1,
                "description": "The answers to choose from; leave out for a free text.",
            },
        },
        "required": ["question"],
        "additionalProperties": False,
    },
    "pure",
)
_DONE = ToolSpec(
    "done",
    "Ends the goal as done, with an optional value as its result. Call it alone, when nothing else is open.",
    {
        "type": "object",
        "properties": {"value": {"description": "The result of the goal: any JSON value."}},
        "additionalProperties": False,
    },
    "pure",
)
_BLOCKED = ToolSpec(
    "blocked",
    "Ends the goal as blocked, because it cannot be reached. Call it alone, when nothing else is open.",
    {
        "type": "object",
        "properties": {"reason": {"type": "string", "pattern": r"\S", "description": "What is in the way."}},
        "required": ["reason"],
        "additionalProperties": False,
    },
    "pure",
)
KERNEL_TOOLS: Mapping[str, KernelTool] = {
    "ask": KernelTool(_ASK, _question),
    "done": KernelTool(_DONE, _end, is_alone=True),
    "blocked": KernelTool(_BLOCKED, _block, is_alone=True),
}
"""The kernel tools by name; other tools cannot have these names."""
