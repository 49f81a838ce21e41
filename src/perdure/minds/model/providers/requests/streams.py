"""An answer while it arrives: events of pydantic-ai become deltas, and at its end the parts of the answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic_ai import messages as wire

from perdure.errors import Invalid
from perdure.kernel.conversation.parts import (
    FinishReason,
    Opaque,
    Part,
    TextPart,
    ThinkingPart,
    TokenUsage,
    ToolCallPart,
)
from perdure.minds.model.estimates import estimate_usage
from perdure.minds.model.ports import Delta, ModelRequest, OnDelta
from perdure.minds.model.providers.requests.messages import ITEM_ID, Prepared
from perdure.minds.model.providers.requests.texts import Pieces, read_arguments
from perdure.text.storable import without_surrogates
from perdure.text.strict_json import PAYLOAD, dump_json, parse_json

LONGEST_ANSWER_BYTES = 1 << 20
"""Of all texts of an answer together; what follows is not read."""
MOST_PARTS = 1024
"""The maximum number of parts of an answer; what follows is not read."""
_MOST_TOKENS = 10**12
"""A reported number that is larger, or below zero, is replaced by an estimate."""
_Kind = Literal["text", "thinking", "arguments"]


class MalformedAnswer(Exception):
    """The provider has sent a value of another type than its protocol says; the packages of vendors do not look."""


@dataclass
class _Arriving:
    """One part that arrives."""

    kind: _Kind
    place: int
    """Its index among the parts that are passed on."""
    pieces: Pieces = field(default_factory=Pieces)


class Arrival:
    """Takes the events of one attempt, passes deltas on, and counts what has arrived."""

    def __init__(self, request: ModelRequest, prepared: Prepared, on_delta: OnDelta) -> None:
        self._request = request
        self._prepared = prepared
        self._on_delta = on_delta
        self._parts: dict[int, _Arriving] = {}
        self._size = 0
        self._form_length = 0
        self._has_form = prepared.parameters.output_mode != "text"
        self.has_begun = False
        """Whether a delta was passed on."""
        self.is_truncated = False
        """Whether the answer is longer than what is read."""

    def take(self, event: wire.ModelResponseStreamEvent) -> None:
        """Take the next event.

        Raises: MalformedAnswer
        """
        if isinstance(event, wire.PartStartEvent):
            self._start(event.index, event.part)
        elif isinstance(event, wire.PartDeltaEvent):
            arriving = self._parts.get(event.index)
            if arriving is not None:
                self._add(arriving, _delta_text(event.delta))

    def finish(self) -> None:
        """Pass on what was held back, because it could have been the half of a character."""
        for arriving in self._parts.values():
            self._pass_on(arriving, arriving.pieces.finish())

    def _start(self, index: int, part: wire.ModelResponsePart) -> None:
        if isinstance(part, wire.TextPart | wire.ThinkingPart):
            kind: _Kind = "text" if isinstance(part, wire.TextPart) else "thinking"
            text = _text(part.content)
        elif isinstance(part, wire.ToolCallPart):
            is_answer = part.tool_name == self._prepared.output_tool
            kind, text = "text" if is_answer else "arguments", _arguments_text(part.args)
        else:
            return  # images, files and tools that the provider runs itself are not asked for
        if len(self._parts) == MOST_PARTS:
            self.is_truncated = True
            return
        self._parts[index] = _Arriving(kind, len(self._parts))
        self._add(self._parts[index], text)

    def _add(self, arriving: _Arriving, text: str) -> None:
        left = LONGEST_ANSWER_BYTES - self._size
        size = len(text.encode(errors="surrogatepass"))
        if size > left:
            text = text.encode(errors="surrogatepass")[:left].decode(errors="ignore")
            self.is_truncated = True
        self._size += min(size, left)
        self._pass_on(arriving, arriving.pieces.take(text) if text else "")

    def _pass_on(self, arriving: _Arriving, text: str) -> None:
        """Pass a text on. An answer that has a form is one text, whatever it arrives as."""
        if not text or (self._has_form and arriving.kind != "text"):
            return
        self.has_begun = True
        if self._has_form:
            self._on_delta(Delta(0, "text", text, self._form_length))
            self._form_length += len(text)
        else:
            self._on_delta(Delta(arriving.place, arriving.kind, text, arriving.pieces.code_points - len(text)))

    def answer(self, response: wire.ModelResponse, service: str) -> "Arrived":
        """Return the whole answer.

        Raises: MalformedAnswer
        """
        self.finish()
        parts = [self._part(arriving, response.parts[index], service) for index, arriving in self._parts.items()]
        if self.is_truncated and parts and isinstance(parts[-1], ToolCallPart):
            parts.pop()  # the call that was being written is not whole
        while parts and parts[-1] == TextPart(""):
            parts.pop()
        if not parts and (refusal := _refusal(response)):
            parts = [TextPart(refusal)]
        return Arrived(
            parts=_formed(parts) if self._has_form else parts,
            finish_reason=_finish_reason(response, parts, is_truncated=self.is_truncated),
            usage=self._usage(response),
            response_id=_optional_text(response.provider_response_id),
            is_truncated=self.is_truncated,
        )

    def _part(self, arriving: _Arriving, part: wire.ModelResponsePart, service: str) -> Part:
        text = arriving.pieces.text
        if isinstance(part, wire.ToolCallPart):
            if arriving.kind == "text":
                return TextPart(text)
            arguments = read_arguments(text)
            opaque = _opaque(part, service, id=part.tool_call_id, item_id=part.id)
            name = self._prepared.names.ours(without_surrogates(_text(part.tool_name)))
            unreadable = text if arguments is None else None
            return ToolCallPart("", name, arguments, unreadable, opaque)
        if isinstance(part, wire.ThinkingPart):
            return ThinkingPart(text, _opaque(part, service, id=part.id, signature=part.signature))
        if isinstance(part, wire.TextPart) and text:
            return TextPart(text, _opaque(part, service, id=part.id))
        return TextPart(text)

    def _usage(self, response: wire.ModelResponse) -> TokenUsage:
        usage = response.usage
        found = {
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "cache_read": usage.cache_read_tokens,
            "cache_write": usage.cache_write_tokens,
            "reasoning": usage.output_reasoning_tokens,
        }
        is_usable = all(isinstance(each, int) and 0 <= each <= _MOST_TOKENS for each in found.values())
        if self.is_truncated or not is_usable or not (usage.input_tokens or usage.output_tokens):
            return estimate_usage(self._request, self._size)
        return TokenUsage(**found, estimated=False)


@dataclass(frozen=True, slots=True)
class Arrived:
    """A whole answer."""

    parts: Sequence[Part]
    finish_reason: FinishReason
    usage: TokenUsage
    response_id: str | None
    is_truncated: bool


def _formed(parts: Sequence[Part]) -> Sequence[Part]:
    """Return of an answer that must have a form its text alone."""
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    return [TextPart(text)] if text else []


def _delta_text(delta: object) -> str:
    if isinstance(delta, wire.TextPartDelta | wire.ThinkingPartDelta):
        return _text(delta.content_delta or "")
    if isinstance(delta, wire.ToolCallPartDelta):
        return _arguments_text(delta.args_delta)
    return ""


def _arguments_text(arguments: Any) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    try:
        return dump_json(arguments, "The arguments").decode()
    except Invalid as error:
        raise MalformedAnswer(error.detail) from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise MalformedAnswer(f"a text has the type {type(value).__name__}, and not str")
    return value


def _optional_text(value: object) -> str | None:
    return without_surrogates(value) if isinstance(value, str) else None


def _opaque(
    part: wire.TextPart | wire.ThinkingPart | wire.ToolCallPart,
    service: str,
    *,
    id: str | None,  # noqa: A002 (as in Opaque)
    signature: str | None = None,
    item_id: str | None = None,
) -> Opaque | None:
    id, signature, item_id = _optional_text(id), _optional_text(signature), _optional_text(item_id)  # noqa: A001 (same)
    details = _recordable(part.provider_details)
    if item_id is not None:
        details[ITEM_ID] = item_id
    if id is None and signature is None and not details:
        return None
    return Opaque(service, id, signature, details or None)


def _recordable(details: object) -> dict[str, Any]:
    """Return what a provider adds to a part, if it can be recorded as it is."""
    try:
        value = parse_json(dump_json(details or {}, "details"), "details", PAYLOAD)
    except Invalid:
        return {}
    return value if isinstance(value, dict) else {}


def _refusal(response: wire.ModelResponse) -> str:
    text = (response.provider_details or {}).get("refusal")
    return without_surrogates(text) if isinstance(text, str) else ""


def _finish_reason(response: wire.ModelResponse, parts: Sequence[object], *, is_truncated: bool) -> FinishReason:
    if response.finish_reason == "content_filter":
        return "refusal"
    if is_truncated or response.finish_reason == "length":
        return "length"
    if any(isinstance(part, ToolCallPart) for part in parts):
        return "tool_calls"
    return "stop" if any(isinstance(part, TextPart) and part.text for part in parts) else "empty"
