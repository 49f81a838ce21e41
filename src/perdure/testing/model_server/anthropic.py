"""The wire format of Anthropic messages."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from perdure.errors import Invalid
from perdure.testing.model_server.answers import ScriptedAnswer, ScriptedUsage
from perdure.testing.model_server.incoming import IncomingRequest
from perdure.testing.model_server.wire_formats import Event, items, request_of
from perdure.text.strict_json import SYNTAX, parse_json


class Anthropic:
    """See WireFormat."""

    def read(self, body: Mapping[str, Any], size_bytes: int) -> IncomingRequest:
        messages = items(body.get("messages"))
        request = request_of(body, messages, [_kind(each) for each in messages])
        tools = [str(each.get("name")) for each in items(body.get("tools"))]
        choice = body.get("tool_choice") or {}
        required = {"tool": choice.get("name"), "any": tools[-1] if tools else None}
        return replace(
            request,
            tools=tuple(tools),
            output_tool=required.get(str(choice.get("type"))),
            has_schema=bool(body.get("output_format") or (body.get("output_config") or {}).get("format")),
            size_bytes=size_bytes,
        )

    def events(self, answer: ScriptedAnswer, request: IncomingRequest, number: int) -> Iterator[Event]:
        usage = answer.usage if answer.reports_usage and answer.usage is not None else ScriptedUsage()
        started = {**_message(answer, request, number, []), "usage": {**_usage(usage), "output_tokens": 0}}
        yield _event("message_start", {"message": {**started, "stop_reason": None}})
        for index, (block, kind, key, text) in enumerate(_blocks(answer, number)):
            yield _event("content_block_start", {"index": index, "content_block": _started(block)})
            for piece in answer.pieces(text):
                yield _event(
                    "content_block_delta", {"index": index, "delta": {"type": kind, key: piece}}, is_delta=True
                )
            if block["type"] == "thinking":
                signed = {"type": "signature_delta", "signature": block["signature"]}
                yield _event("content_block_delta", {"index": index, "delta": signed})
            yield _event("content_block_stop", {"index": index})
        ended = {"delta": {"stop_reason": _stop_reason(answer), "stop_sequence": None}, "usage": _usage(usage)}
        yield _event("message_delta", ended)
        yield _event("message_stop", {})

    def complete(self, answer: ScriptedAnswer, request: IncomingRequest, number: int) -> Mapping[str, Any]:
        return _message(answer, request, number, [block for block, *_ in _blocks(answer, number)])

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
    for index, call in enumerate(answer.calls):
        arguments = _parsed(call.arguments_text)
        tool = {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": call.name, "input": arguments}
        yield tool, "input_json_delta", "partial_json", call.arguments_text


def _parsed(text: str) -> object:
    try:
        return parse_json(text, "arguments", SYNTAX)
    except Invalid:
        return {}


def _started(block: Mapping[str, Any]) -> dict[str, Any]:
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


def _message(
    answer: ScriptedAnswer, request: IncomingRequest, number: int, content: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
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
    """Return the kind of a message; messages of the user may also contain only results of tools."""
    if message.get("role") == "assistant":
        return "model"
    content = message.get("content")
    has_text = isinstance(content, str) or any(part.get("type") == "text" for part in items(content))
    return "user" if has_text else "other"
