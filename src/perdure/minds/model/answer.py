"""Bounds the size, depth and text of an answer of a model before it is recorded."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from perdure.errors import Invalid
from perdure.kernel.conversation.messages import ModelTurn
from perdure.kernel.conversation.parts import Opaque, Part, TextPart, ThinkingPart, TokenUsage, ToolCallPart
from perdure.minds.model.ports import Delta, DeltaReset, ModelAnswer
from perdure.text.storable import without_surrogates
from perdure.text.strict_json import dump_json

LARGEST = 1024 * 1024
"""The maximum size in bytes of the recorded texts of one turn."""
DEEPEST = 64
"""The maximum depth of arguments; deeper ones are recorded as text."""
MOST_PARTS = 512
MOST_CALLS = 128
"""The maximum numbers of parts and of tool calls of one turn; those that follow are left out."""
_LARGEST_OPAQUE = 1024 * 1024
"""The maximum size in bytes of the data of providers of one turn; what exceeds it is left out."""
_LONGEST_NAME = 200


@dataclass
class Arriving:
    """The part of an answer that has arrived."""

    texts: dict[int, tuple[str, list[str]]] = field(default_factory=dict)
    """The kind and the pieces of each part."""

    def take(self, delta: Delta | DeltaReset) -> None:
        """Add a piece."""
        if isinstance(delta, DeltaReset):
            self.texts.clear()
            return
        self.texts.setdefault(delta.part, (delta.kind, []))[1].append(delta.text)

    def parts(self) -> list[Part]:
        """Return the texts so far, without calls, which are incomplete."""
        made = {"text": TextPart, "thinking": ThinkingPart}
        found = [(kind, "".join(pieces)) for _, (kind, pieces) in sorted(self.texts.items())]
        return [made[kind](text) for kind, text in found if kind in made and text]


def turn_of(answer: ModelAnswer, number: int) -> ModelTurn:
    """Return the turn that records an answer, with ids for its calls."""
    parts, is_cut = bounded(answer.parts, number)
    return ModelTurn(
        number,
        without_surrogates(answer.model),
        without_surrogates(answer.provider),
        parts,
        answer.finish_reason,
        answer.usage,
        answer.cost_usd,
        max(answer.duration_ms, 0),
        answer.first_token_ms,
        max(answer.attempts, 1),
        None if answer.response_id is None else without_surrogates(answer.response_id)[:_LONGEST_NAME],
        truncated=answer.truncated or is_cut,
    )


def bounded(parts: Sequence[Part], number: int) -> tuple[tuple[Part, ...], bool]:
    """Return parts that can be recorded, with ids for their calls, and whether any was shortened."""
    left, left_opaque, calls, is_cut = LARGEST, _LARGEST_OPAQUE, 0, False
    kept: list[Part] = []
    for part in parts:
        if len(kept) == MOST_PARTS or (isinstance(part, ToolCallPart) and calls == MOST_CALLS):
            return tuple(kept), True
        calls += isinstance(part, ToolCallPart)
        opaque, opaque_size = _opaque(part.opaque, left_opaque)
        left_opaque -= opaque_size
        named = replace(part, opaque=opaque)
        whole = _call(named, f"t{number}.{calls}") if isinstance(named, ToolCallPart) else _said(named)
        short, size = _within(whole, left)
        is_cut, left = is_cut or short != whole, left - size
        kept.append(short)
    return tuple(kept), is_cut


def _said(part: TextPart | ThinkingPart) -> Part:
    return replace(part, text=without_surrogates(part.text))


def _within(part: Part, left: int) -> tuple[Part, int]:
    """Return a part shortened to a number of bytes, and its size."""
    if not isinstance(part, ToolCallPart):
        cut = part.text.encode()[:left].decode(errors="ignore")
        return replace(part, text=cut), len(cut.encode())
    text = part.arguments_text or "" if part.arguments is None else orjson.dumps(part.arguments).decode()
    if len(text.encode()) <= left:
        return part, len(text.encode())
    cut = text.encode()[:left].decode(errors="ignore")
    return replace(part, arguments=None, arguments_text=cut), len(cut.encode())


def _call(part: ToolCallPart, call_id: str) -> ToolCallPart:
    """Return a call with its id; arguments that cannot be stored unchanged become text."""
    named = replace(part, call_id=call_id, tool=without_surrogates(part.tool)[:_LONGEST_NAME])
    if part.arguments is None:
        return replace(named, arguments_text=without_surrogates(part.arguments_text or ""))
    if _is_deep(part.arguments, DEEPEST):
        return replace(named, arguments=None, arguments_text=_as_text(part.arguments))
    arguments = _clean(part.arguments)
    try:
        dump_json(arguments, "The arguments")
    except Invalid:
        return replace(named, arguments=None, arguments_text=_as_text(part.arguments))
    return replace(named, arguments=arguments)


def _as_text(value: Any) -> str:
    """Return arguments as text, if they are not nested too deep."""
    try:
        return without_surrogates(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return "(arguments that are nested too deep)"


def _is_deep(value: Any, left: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return left == 0 or any(_is_deep(each, left - 1) for each in inner)


def _clean(value: Any) -> Any:
    match value:
        case str():
            return without_surrogates(value)
        case dict():
            return {without_surrogates(str(key)): _clean(each) for key, each in value.items()}
        case list():
            return [_clean(each) for each in value]
        case _:
            return value


def _opaque(opaque: Opaque | None, left: int) -> tuple[Opaque | None, int]:
    """Return the data of a provider and its size, unless it cannot be stored unchanged or is larger than `left`."""
    if opaque is None:
        return None, 0
    try:
        size = len(orjson.dumps([opaque.provider, opaque.id, opaque.signature, opaque.details]))
    except (TypeError, ValueError):
        return None, 0
    return (opaque, size) if size <= left else (None, 0)


def estimated(sent_bytes: int, parts: Sequence[Part]) -> TokenUsage:
    """Estimate the tokens of a request whose answer was interrupted."""
    received = sum(len(part.text.encode()) for part in parts if isinstance(part, TextPart | ThinkingPart))
    return TokenUsage(sent_bytes // 3, received // 3, estimated=True)
