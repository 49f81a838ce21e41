"""Requests as pydantic-ai sends them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import messages as wire
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings as WireSettings
from pydantic_ai.tools import ToolDefinition

from perdure.kernel.conversation.parts import Opaque, Part, TextPart, ThinkingPart, ToolCallPart
from perdure.minds.model.ports import ModelMessage, ModelParts, ModelRequest, ToolResult, UserText

OUTPUT_NAME = "answer"
"""The name of the hidden tool, or of the schema, of an answer that must have a form."""
_LONGEST_TOOL_NAME = 64
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


class ToolNames:
    """The names of tools as providers accept them: 64 letters, digits, `_` and `-`; each tool keeps one of its own."""

    def __init__(self, names: Sequence[str]) -> None:
        self._sent: dict[str, str] = {}
        for name in names:
            self.sent(name)
        self._ours = {sent: name for name, sent in self._sent.items()}

    def sent(self, name: str) -> str:
        """Return the name that a provider is sent."""
        if name not in self._sent:
            plain = _NOT_IN_NAMES.sub("_", name)[:_LONGEST_TOOL_NAME] or "_"
            taken, number, free = set(self._sent.values()), 2, plain
            while free in taken:
                free = f"{plain[: _LONGEST_TOOL_NAME - 4]}_{number}"
                number += 1
            self._sent[name] = free
        return self._sent[name]

    def ours(self, sent: str) -> str:
        """Return the tool that a provider calls; a name that it was not sent is returned unchanged."""
        return self._ours.get(sent, sent)


@dataclass(frozen=True)
class Prepared:
    """One request, ready to be sent."""

    messages: list[wire.ModelMessage]
    parameters: ModelRequestParameters
    settings: WireSettings
    names: ToolNames = field(compare=False)
    output_tool: str | None = None
    """The hidden tool whose arguments are the answer, when the model has no structured output of its own."""


def prepare(request: ModelRequest, model: Model[Any], service: str) -> Prepared:
    """Write a request for a model of a service; of the opaque data of parts, only that of this service is sent."""
    names = ToolNames([tool.name for tool in request.tools])
    tools = [
        ToolDefinition(
            name=names.sent(tool.name), parameters_json_schema=dict(tool.parameters), description=tool.description
        )
        for tool in request.tools
    ]
    form = {} if request.output_schema is None else _form(request.output_schema, model)
    system = [wire.InstructionPart(content=request.system)] if request.system else None
    parameters = ModelRequestParameters(function_tools=tools, instruction_parts=system, **form)
    output_tool = OUTPUT_NAME if parameters.output_mode == "tool" else None
    messages = list(_messages(request.messages, names, model, service))
    return Prepared(messages, parameters, _settings(request, model), names, output_tool)


def _form(schema: Mapping[str, Any], model: Model[Any]) -> dict[str, Any]:
    """Return how an answer of a form is required: by the model's own structured output, else by a tool for it."""
    if model.profile.get("supports_json_schema_output", False):
        wanted = OutputObjectDefinition(json_schema=dict(schema), name=OUTPUT_NAME)
        return {"output_mode": "native", "output_object": wanted}
    described = "Gives the answer. It must be called exactly once."
    tool = ToolDefinition(name=OUTPUT_NAME, parameters_json_schema=dict(schema), description=described, kind="output")
    return {"output_mode": "tool", "allow_text_output": False, "output_tools": [tool]}


def _settings(request: ModelRequest, model: Model[Any]) -> WireSettings:
    settings: WireSettings = {"cache": True}
    if request.settings.temperature is not None:
        settings["temperature"] = request.settings.temperature
    if request.settings.max_tokens is not None:
        settings["max_tokens"] = request.settings.max_tokens
    if "max_retries" not in model.unsupported_settings:
        settings["max_retries"] = 0
    if model.system == "openai":
        settings["openai_store"] = False  # type: ignore[typeddict-unknown-key] # the history is ours; it is kept nowhere else
    return settings


def _messages(
    messages: Sequence[ModelMessage], names: ToolNames, model: Model[Any], service: str
) -> Iterator[wire.ModelMessage]:
    """Write messages: what is not of the model, one after the other, is one request."""
    waiting: list[wire.ModelRequestPart] = []
    ids: dict[str, str] = {}
    for message in messages:
        match message:
            case UserText(text):
                waiting.append(wire.UserPromptPart(text))
            case ToolResult():
                outcome = "success" if message.ok else "failed"
                call_id = ids.get(message.call_id, _plain_id(message.call_id))
                part = wire.ToolReturnPart(names.sent(message.tool), message.content, call_id, outcome=outcome)  # type: ignore[arg-type]
                waiting.append(part)
            case ModelParts(parts):
                if waiting:
                    yield wire.ModelRequest(parts=waiting)
                    waiting = []
                ids = {part.call_id: _call_id(part, service) for part in parts if isinstance(part, ToolCallPart)}
                if any(part != TextPart("") for part in parts):
                    yield _response(parts, names, model, service)
    if waiting:
        yield wire.ModelRequest(parts=waiting)


def _response(parts: Sequence[Part], names: ToolNames, model: Model[Any], service: str) -> wire.ModelResponse:
    written = [_part(part, names, model, service) for part in parts if part != TextPart("")]
    return wire.ModelResponse(parts=written, provider_name=model.system, canonical_system=model.canonical_system)


def _part(part: Part, names: ToolNames, model: Model[Any], service: str) -> wire.ModelResponsePart:
    opaque = part.opaque if part.opaque is not None and part.opaque.provider == service else None
    details = dict(opaque.details) if opaque is not None and opaque.details is not None else {}
    item_id = details.pop(ITEM_ID, None)
    common: dict[str, Any] = {}
    if opaque is not None:
        common = {"provider_name": model.system, "provider_details": details or None}
    match part:
        case TextPart():
            return wire.TextPart(part.text, id=_id(opaque), **common)
        case ThinkingPart():
            signature = None if opaque is None else opaque.signature
            return wire.ThinkingPart(part.text, id=_id(opaque), signature=signature, **common)
        case ToolCallPart():
            given: Any = part.arguments if part.arguments_text is None else part.arguments_text
            return wire.ToolCallPart(names.sent(part.tool), given, _call_id(part, service), id=item_id, **common)


ITEM_ID = "item_id"
"""In the details of a tool call: the id of its item, where a provider has one beside the id of the call."""


def _id(opaque: Opaque | None) -> str | None:
    return None if opaque is None else opaque.id


def _call_id(part: ToolCallPart, service: str) -> str:
    """Return the id of a call: the provider's own, or ours in characters that every provider accepts."""
    if part.opaque is not None and part.opaque.provider == service and part.opaque.id is not None:
        return part.opaque.id
    return _plain_id(part.call_id)


def _plain_id(call_id: str) -> str:
    return _NOT_IN_NAMES.sub("_", call_id) or "call"
