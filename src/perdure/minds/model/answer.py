"""An answer of a model, bounded before it is recorded: its size, its depth, and what no text can contain."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from perdure.kernel.conversation.messages import ModelTurn
from perdure.kernel.conversation.parts import Opaque, Part, TextPart, ThinkingPart, TokenUsage, ToolCallPart
from perdure.minds.model.ports import Delta, DeltaReset, ModelAnswer

LARGEST = 1024 * 1024
"""How many bytes of the texts of one turn are recorded."""
DEEPEST = 64
"""How deep arguments may be nested; deeper ones are kept as text."""


@dataclass
class Arriving:
    """What has arrived of an answer by now."""

    texts: dict[int, tuple[str, list[str]]] = field(default_factory=dict)
    """The kind and the pieces of each part."""

    def take(self, delta: Delta | DeltaReset) -> None:
        """Take a piece in."""
        if isinstance(delta, DeltaReset):
            self.texts.clear()
            return
        self.texts.setdefault(delta.part, (delta.kind, []))[1].append(delta.text)

    def parts(self) -> list[Part]:
        """Return the texts; calls are left out, because they are not complete."""
        made = {"text": TextPart, "thinking": ThinkingPart}
        found = [(kind, "".join(pieces)) for _, (kind, pieces) in sorted(self.texts.items())]
        return [made[kind](text) for kind, text in found if kind in made and text]


def turn_of(answer: ModelAnswer, number: int) -> ModelTurn:
    """Return the turn that is recorded of an answer; its calls are named."""
    parts, is_cut = bounded(answer.parts, number)
    return ModelTurn(
        number,
        storable(answer.model),
        storable(answer.provider),
        parts,
        answer.finish_reason,
        answer.usage,
        answer.cost_usd,
        max(answer.duration_ms, 0),
        answer.first_token_ms,
        max(answer.attempts, 1),
        None if answer.response_id is None else storable(answer.response_id),
        truncated=answer.truncated or is_cut,
    )


def bounded(parts: Sequence[Part], number: int) -> tuple[tuple[Part, ...], bool]:
    """Return parts that can be recorded, with names for their calls, and whether something was cut."""
    left, calls, is_cut = LARGEST, 0, False
    kept: list[Part] = []
    for part in parts:
        calls += isinstance(part, ToolCallPart)
        whole = _call(part, f"t{number}.{calls}") if isinstance(part, ToolCallPart) else _said(part)
        short, size = _within(whole, left)
        is_cut, left = is_cut or short != whole, left - size
        kept.append(short)
    return tuple(kept), is_cut


def _said(part: TextPart | ThinkingPart) -> Part:
    return replace(part, text=storable(part.text), opaque=_opaque(part.opaque))


def _within(part: Part, left: int) -> tuple[Part, int]:
    """Return a part cut to a number of bytes, and how many it has."""
    if not isinstance(part, ToolCallPart):
        cut = part.text.encode()[:left].decode(errors="ignore")
        return replace(part, text=cut), len(cut.encode())
    text = part.arguments_text or "" if part.arguments is None else orjson.dumps(part.arguments).decode()
    if len(text.encode()) <= left:
        return part, len(text.encode())
    cut = text.encode()[:left].decode(errors="ignore")
    return replace(part, arguments=None, arguments_text=cut), len(cut.encode())


def storable(text: str) -> str:
    """Return a text with U+FFFD for each lone surrogate."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if not _is_storable(text) else text


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _call(part: ToolCallPart, call_id: str) -> ToolCallPart:
    """Return a call with its name; arguments that cannot be stored as they are become text."""
    named = replace(part, call_id=call_id, tool=storable(part.tool)[:200], opaque=_opaque(part.opaque))
    if part.arguments is None:
        return replace(named, arguments_text=storable(part.arguments_text or ""))
    if _is_deep(part.arguments, DEEPEST):
        return replace(named, arguments=None, arguments_text=_as_text(part.arguments))
    arguments = _clean(part.arguments)
    try:
        orjson.dumps(arguments)
    except (TypeError, ValueError):
        return replace(named, arguments=None, arguments_text=_as_text(part.arguments))
    return replace(named, arguments=arguments)


def _as_text(value: Any) -> str:
    """Return arguments as text, as far as they can be written."""
    try:
        return storable(json.dumps(value, ensure_ascii=False))
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
            return storable(value)
        case dict():
            return {storable(str(key)): _clean(each) for key, each in value.items()}
        case list():
            return [_clean(each) for each in value]
        case _:
            return value


def _opaque(opaque: Opaque | None) -> Opaque | None:
    """Return what only the provider understands, unless it cannot be stored unchanged."""
    if opaque is None:
        return None
    try:
        orjson.dumps([opaque.provider, opaque.id, opaque.signature, opaque.details])
    except (TypeError, ValueError):
        return None
    return opaque


def estimated(sent_bytes: int, parts: Sequence[Part]) -> TokenUsage:
    """Estimate the tokens of a request whose answer was interrupted."""
    received = sum(len(part.text.encode()) for part in parts if isinstance(part, TextPart | ThinkingPart))
    return TokenUsage(sent_bytes // 3, received // 3, estimated=True)
