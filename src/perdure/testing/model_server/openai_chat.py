"""The wire format of OpenAI chat completions, which many other servers speak too."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from perdure.testing.model_server.answers import ScriptedAnswer, ScriptedUsage
from perdure.testing.model_server.incoming import IncomingRequest
from perdure.testing.model_server.wire_formats import Event, items, request_of

_KINDS = {"user": "user", "assistant": "model"}


class OpenAIChat:
    """See WireFormat."""

    def read(self, body: Mapping[str, Any], size_bytes: int) -> IncomingRequest:
        messages = items(body.get("messages"))
        request = request_of(body, messages, [_KINDS.get(str(each.get("role")), "other") for each in messages])
        tools = [str(each.get("function", {}).get("name")) for each in items(body.get("tools"))]
        response_format = body.get("response_format") or {}
        return replace(
            request,
            tools=tuple(tools),
            output_tool=_required_tool(body.get("tool_choice"), tools),
            has_schema=response_format.get("type") in ("json_schema", "json_object"),
            size_bytes=size_bytes,
        )

    def events(self, answer: ScriptedAnswer, request: IncomingRequest, number: int) -> Iterator[Event]:
        yield _chunk(request, number, {"role": "assistant", "content": ""})
        for piece in answer.pieces(answer.thinking):
            yield _chunk(request, number, {"reasoning_content": piece}, is_delta=True)
        kind = "refusal" if answer.finish == "refusal" else "content"
        for piece in answer.pieces(answer.text):
            yield _chunk(request, number, {kind: piece}, is_delta=True)
        for index, call in enumerate(answer.calls):
            started = {
                "id": f"call_{number}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": ""},
            }
            yield _chunk(request, number, {"tool_calls": [{"index": index, **started}]})
            for piece in answer.pieces(call.arguments_text):
                part = {"index": index, "function": {"arguments": piece}}
                yield _chunk(request, number, {"tool_calls": [part]}, is_delta=True)
        yield _chunk(request, number, {}, finish=_finish(answer))
        if answer.reports_usage and answer.usage is not None:
            yield Event(
                {**_common(request, number, "chat.completion.chunk"), "choices": [], "usage": _usage(answer.usage)}
            )
        yield Event("[DONE]")

    def complete(self, answer: ScriptedAnswer, request: IncomingRequest, number: int) -> Mapping[str, Any]:
        calls = [
            {
                "id": f"call_{number}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments_text},
            }
            for index, call in enumerate(answer.calls)
        ]
        kind = "refusal" if answer.finish == "refusal" else "content"
        message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None, kind: answer.text or None}
        if calls:
            message["tool_calls"] = calls
        if answer.thinking:
            message["reasoning_content"] = answer.thinking
        choice = {"index": 0, "message": message, "finish_reason": _finish(answer), "logprobs": None}
        usage = {"usage": _usage(answer.usage)} if answer.reports_usage and answer.usage is not None else {}
        return {**_common(request, number, "chat.completion"), "choices": [choice], **usage}

    def error(self, kind: str, message: str) -> Mapping[str, Any]:
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def error_event(self, kind: str, message: str) -> Event:
        return Event(self.error(kind, message))


def _required_tool(choice: object, tools: list[str]) -> str | None:
    """Return the tool that a request requires: the one it names, or the last one when any will do."""
    if isinstance(choice, Mapping):
        function = choice.get("function", choice)
        return str(function.get("name")) if isinstance(function, Mapping) and function.get("name") else None
    return tools[-1] if choice == "required" and tools else None


def _finish(answer: ScriptedAnswer) -> str:
    if answer.finish == "length":
        return "length"
    return "tool_calls" if answer.calls else "stop"


def _common(request: IncomingRequest, number: int, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 1_700_000_000, "model": request.model}


def _chunk(
    request: IncomingRequest,
    number: int,
    delta: Mapping[str, Any],
    *,
    finish: str | None = None,
    is_delta: bool = False,
) -> Event:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return Event({**_common(request, number, "chat.completion.chunk"), "choices": [choice]}, is_delta=is_delta)


def _usage(usage: ScriptedUsage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
