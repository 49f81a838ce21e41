"""The wire format of OpenAI Responses."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from perdure.testing.model_server.answers import ScriptedAnswer, ScriptedUsage
from perdure.testing.model_server.incoming import IncomingRequest
from perdure.testing.model_server.wire_formats import Event, items, request_of

_MODEL_ITEMS = ("function_call", "reasoning")


class OpenAIResponses:
    """See WireFormat."""

    def read(self, body: Mapping[str, Any], size_bytes: int) -> IncomingRequest:
        content = body.get("input")
        messages = [{"role": "user", "content": content}] if isinstance(content, str) else items(content)
        request = request_of(body, messages, [_kind(each) for each in messages])
        tools = [str(each.get("name")) for each in items(body.get("tools")) if each.get("type") == "function"]
        text_format = (body.get("text") or {}).get("format") or {}
        return replace(
            request,
            tools=tuple(tools),
            output_tool=_required_tool(body.get("tool_choice"), tools),
            has_schema=text_format.get("type") in ("json_schema", "json_object"),
            size_bytes=size_bytes,
        )

    def events(self, answer: ScriptedAnswer, request: IncomingRequest, number: int) -> Iterator[Event]:
        for sequence, (kind, data, is_delta) in enumerate(_events(answer, request, number)):
            yield Event({"type": kind, "sequence_number": sequence, **data}, name=kind, is_delta=is_delta)

    def complete(self, answer: ScriptedAnswer, request: IncomingRequest, number: int) -> Mapping[str, Any]:
        return _response(answer, request, number, [item for item, _ in _items(answer, number)])

    def error(self, kind: str, message: str) -> Mapping[str, Any]:
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def error_event(self, kind: str, message: str) -> Event:
        data = {"type": "error", "sequence_number": 0, "code": kind, "message": message, "param": None}
        return Event(data, name="error")


_Parts = tuple[str, dict[str, Any], bool]


def _events(answer: ScriptedAnswer, request: IncomingRequest, number: int) -> Iterator[_Parts]:
    empty = {
        **_response(answer, request, number, []),
        "status": "in_progress",
        "usage": None,
        "incomplete_details": None,
    }
    yield "response.created", {"response": empty}, False
    yield "response.in_progress", {"response": empty}, False
    done: list[Mapping[str, Any]] = []
    for index, (item, text) in enumerate(_items(answer, number)):
        where = {"output_index": index, "item_id": item["id"]}
        yield "response.output_item.added", {"output_index": index, "item": _started(item)}, False
        yield from _item_events(answer, item, text, where)
        yield "response.output_item.done", {"output_index": index, "item": item}, False
        done.append(item)
    response = _response(answer, request, number, done)
    yield f"response.{response['status']}", {"response": response}, False


def _item_events(
    answer: ScriptedAnswer, item: Mapping[str, Any], text: str, where: Mapping[str, Any]
) -> Iterator[_Parts]:
    if item["type"] == "function_call":
        for piece in answer.pieces(text):
            yield "response.function_call_arguments.delta", {**where, "delta": piece}, True
        yield "response.function_call_arguments.done", {**where, "arguments": text, "name": item["name"]}, False
        return
    if item["type"] == "reasoning":
        at = {**where, "summary_index": 0}
        yield "response.reasoning_summary_part.added", {**at, "part": {"type": "summary_text", "text": ""}}, False
        for piece in answer.pieces(text):
            yield "response.reasoning_summary_text.delta", {**at, "delta": piece}, True
        yield "response.reasoning_summary_text.done", {**at, "text": text}, False
        yield "response.reasoning_summary_part.done", {**at, "part": item["summary"][0]}, False
        return
    part = item["content"][0]
    kind, key = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
    at = {**where, "content_index": 0}
    logprobs: dict[str, Any] = {} if kind == "refusal" else {"logprobs": []}
    yield "response.content_part.added", {**at, "part": {**part, key: ""}}, False
    for piece in answer.pieces(text):
        yield f"response.{kind}.delta", {**at, "delta": piece, **logprobs}, True
    yield f"response.{kind}.done", {**at, key: text, **logprobs}, False
    yield "response.content_part.done", {**at, "part": part}, False


def _items(answer: ScriptedAnswer, number: int) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the items of an answer, each with the text that its deltas carry."""
    if answer.thinking:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        item = {"id": f"rs_{number}", "type": "reasoning", "summary": summary, "encrypted_content": f"sealed-{number}"}
        yield item, answer.thinking
    if answer.text:
        part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        if answer.finish == "refusal":
            part = {"type": "refusal", "refusal": answer.text}
        status = "incomplete" if answer.finish == "length" else "completed"
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": status, "content": [part]}
        yield message, answer.text
    for index, call in enumerate(answer.calls):
        item = {"id": f"fc_{number}_{index}", "type": "function_call", "status": "completed", "name": call.name}
        yield {**item, "call_id": f"call_{number}_{index}", "arguments": call.arguments_text}, call.arguments_text


def _started(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item as it is before its first delta."""
    emptied: dict[str, dict[str, Any]] = {
        "message": {"content": []},
        "function_call": {"arguments": ""},
        "reasoning": {"summary": []},
    }
    status = {} if item["type"] == "reasoning" else {"status": "in_progress"}
    return {**item, **emptied[item["type"]], **status}


def _response(
    answer: ScriptedAnswer,
    request: IncomingRequest,
    number: int,
    output: list[Mapping[str, Any]] | list[dict[str, Any]],
) -> dict[str, Any]:
    is_short = answer.finish == "length"
    usage = _usage(answer.usage) if answer.reports_usage and answer.usage is not None else None
    status, details = ("incomplete", {"reason": "max_output_tokens"}) if is_short else ("completed", None)
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": None,
        "incomplete_details": details,
        "instructions": None,
        "metadata": {},
        "model": request.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }


def _usage(usage: ScriptedUsage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


def _kind(item: Mapping[str, Any]) -> str:
    if item.get("role") == "user":
        return "user"
    return "model" if item.get("role") == "assistant" or item.get("type") in _MODEL_ITEMS else "other"


def _required_tool(choice: object, tools: list[str]) -> str | None:
    """Return the tool that a request requires: the one it names, or the last one when any will do."""
    if isinstance(choice, Mapping):
        return str(choice["name"]) if choice.get("name") else None
    return tools[-1] if choice == "required" and tools else None
