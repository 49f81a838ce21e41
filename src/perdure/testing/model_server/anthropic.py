"""The protocol of Anthropic messages."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from perdure.errors import Invalid
from perdure.testing.model_server.answers import ScriptedAnswer, ScriptedUsage
from perdure.testing.model_server.asked import Asked
from perdure.testing.model_server.protocols import Event, items, request_of
from perdure.text.strict_json import SYNTAX, parse_json


class Anthropic:
    """See ModelProtocol."""

    def read(self, body: Mapping[str, Any], size_bytes: int) -> Asked:
        messages = items(body.get("messages"))
        asked = request_of(body, messages, [_kind(each) for each in messages])
        tools = [str(each.get("name")) for each in items(body.get("tools"))]
        choice = body.get("tool_choice") or {}
        wanted = {"tool": choice.get("name"), "any": tools[-1] if tools else None}
        return replace(
            asked,
            tools=tuple(tools),
            output_tool=wanted.get(str(choice.get("type"))),
            has_schema=bool(body.get("output_format") or (body.get("output_config") or {}).get("format")),
            size_bytes=size_bytes,
        )

    def events(self, answer: ScriptedAnswer, asked: Asked, number: int) -> Iterator[Event]:
        usage = answer.usage if answer.reports_usage and answer.usage is not None else ScriptedUsage()
        begun = {**_message(answer, asked, number, []), "usage": {**_usage(usage), "output_tokens": 0}}
        yield _event("message_start", {"message": {**begun, "stop_reason": None}})
        for place, (block, kind, key, text) in enumerate(_blocks(answer, number)):
            yield _event("content_block_start", {"index": place, "content_block": _begun(block)})
            for piece in answer.pieces(text):
                yield _event(
                    "content_block_delta", {"index": place, "delta": {"type": kind, key: piece}}, is_delta=True
                )
            if block["type"] == "thinking":
                signed = {"type": "signature_delta", "signature": block["signature"]}
                yield _event("content_block_delta", {"index": place, "delta": signed})
            yield _event("content_block_stop", {"index": place})
        ended = {"delta": {"stop_reason": _stop_reason(answer), "stop_sequence": None}, "usage": _usage(usage)}
        yield _event("message_delta", ended)
        yield _event("message_stop", {})

    def whole(self, answer: ScriptedAnswer, asked: Asked, number: int) -> Mapping[str, Any]:
        return _message(answer, asked, number, [block for block, *_ in _blocks(answer, number)])

    def error(self, kind: str, message: str) -> Mapping[str, Any]:
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_0"}

    def error_event(self, kind: str, message: str) -> Event:
        return Event(self.error(kind, message), name="error")


def _event(kind: str, data: Mapping[str, Any], *, is_delta: bool = False) -> Event:
    return Event({"type": kind, **data}, name=kind, is_delta=is_delta)


def _blocks(answer: ScriptedAnswer, number: int) -> Iterator[tuple[dict[str, Any], str, str, str]]:
    """Yield the blocks of an answer, each with the type and key of its deltas and the text that they carry."""
    if answer.thinking:
        block = {"type": "thinking", "thinking": answer.thinking, "signature": f"signed-{number}"}
        yield block, "thinking_delta", "thinking", answer.thinking
    if answer.text:
        yield {"type": "text", "text": answer.text, "citations": None}, "text_delta", "text", answer.text
    for place, call in enumerate(answer.calls):
        given = _parsed(call.arguments_text)
        tool = {"type": "tool_use", "id": f"toolu_{number}_{place}", "name": call.name, "input": given}
        yield tool, "input_json_delta", "partial_json", call.arguments_text


def _parsed(text: str) -> object:
    try:
        return parse_json(text, "arguments", SYNTAX)
    except Invalid:
        return {}


def _begun(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block as it is before its first delta."""
    emptied: dict[str, dict[str, Any]] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    return {**block, **emptied[block["type"]]}


def _stop_reason(answer: ScriptedAnswer) -> str:
    if answer.finish != "stop":
        return {"length": "max_tokens", "refusal": "refusal"}[answer.finish]
    return "tool_use" if answer.calls else "end_turn"


def _message(answer: ScriptedAnswer, asked: Asked, number: int, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": _stop_reason(answer),
        "stop_sequence": None,
        "usage": _usage(answer.usage or ScriptedUsage()),
    }


def _usage(usage: ScriptedUsage) -> dict[str, Any]:
    """Return the usage; the input tokens of Anthropic do not contain the cached ones."""
    return {
        "input_tokens": usage.input - usage.cache_read - usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        "output_tokens": usage.output,
    }


def _kind(message: Mapping[str, Any]) -> str:
    """Return who a message is from; results of tools stand in messages of the user too."""
    if message.get("role") == "assistant":
        return "model"
    content = message.get("content")
    has_text = isinstance(content, str) or any(part.get("type") == "text" for part in items(content))
    return "user" if has_text else "other"
