"""A model that answers from a script: a small real client, whose answers arrive in pieces."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perdure.minds.model.ports import (
    Delta,
    DeltaReset,
    FinishReason,
    ModelAnswer,
    ModelRequest,
    OnDelta,
    Part,
    TextPart,
    ThinkingPart,
    TokenUsage,
    ToolCallPart,
)

MODEL = "scripted:one"
USAGE = TokenUsage(input=10, output=5)


class Hold:
    """A place in a stream where the model stops until it is released."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()

    async def pass_by(self) -> None:
        self.reached.set()
        await self.released.wait()


@dataclass(frozen=True)
class Line:
    """One answer of a script: what happens on the way, and the answer."""

    answer: ModelAnswer
    before: Sequence[Hold | DeltaReset] = ()
    """What happens before the first piece."""
    middle: Sequence[Hold | DeltaReset] = ()
    """What happens after the first half of each part."""


Script = Line | ModelAnswer | Exception | Callable[[ModelRequest], "Script"]


def says(*texts: str, **fields: Any) -> ModelAnswer:
    """Return an answer in text."""
    return answer_of(*(TextPart(text) for text in texts), **fields)


def calls(*wanted: tuple[str, Any], text: str = "") -> ModelAnswer:
    """Return an answer that calls tools; arguments that are no object are sent as they are."""
    parts = [
        ToolCallPart("", tool, arguments) if isinstance(arguments, dict) else ToolCallPart("", tool, None, arguments)
        for tool, arguments in wanted
    ]
    return answer_of(*([TextPart(text)] if text else []), *parts)


def answer_of(*parts: Part, **fields: Any) -> ModelAnswer:
    """Return an answer of parts, with a finish reason that follows from them."""
    has_calls = any(isinstance(part, ToolCallPart) for part in parts)
    finish: FinishReason = "stop" if parts else "empty"
    if has_calls:
        finish = "tool_calls"
    answer = ModelAnswer(parts, finish, USAGE, 0.001, MODEL, "scripted", duration_ms=7, first_token_ms=3)
    return replace(answer, **fields)


@dataclass
class ScriptedModel:
    """Answers each request with the next line; see ModelClient."""

    script: list[Script] = field(default_factory=list)
    window: int = 100_000
    usd_per_token: float | None = 0.0001
    requests: list[ModelRequest] = field(default_factory=list)
    """What was asked, in order; a request that was cancelled is among them."""
    open_streams: int = 0
    is_closed: bool = False

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        """See ModelClient.answer."""
        self.requests.append(request)
        line = self.script.pop(0)
        while callable(line):
            line = line(request)
        if isinstance(line, Exception):
            raise line
        line = line if isinstance(line, Line) else Line(line)
        self.open_streams += 1
        try:
            await _happen(line.before, on_delta)
            for number, part in enumerate(line.answer.parts):
                await _stream(number, part, line.middle, on_delta)
        finally:
            self.open_streams -= 1
        return line.answer

    def context_window(self, model: str) -> int:  # noqa: ARG002 (one model)
        """See ModelClient.context_window."""
        return self.window

    def cost_usd(self, model: str, usage: TokenUsage) -> float | None:  # noqa: ARG002 (one model)
        """See ModelClient.cost_usd."""
        return None if self.usd_per_token is None else usage.total * self.usd_per_token

    async def close(self) -> None:
        """See ModelClient.close."""
        self.is_closed = True


async def _stream(number: int, part: Part, middle: Sequence[Hold | DeltaReset], on_delta: OnDelta) -> None:
    match part:
        case TextPart(text=text):
            kind: Any = "text"
        case ThinkingPart(text=text):
            kind = "thinking"
        case ToolCallPart(arguments_text=given):
            kind, text = "arguments", given or "{}"
    half = len(text) // 2
    on_delta(Delta(number, kind, text[:half], 0))
    await asyncio.sleep(0)
    await _happen(middle, on_delta)
    on_delta(Delta(number, kind, text[half:], half))


async def _happen(events: Sequence[Hold | DeltaReset], on_delta: OnDelta) -> None:
    for event in events:
        if isinstance(event, Hold):
            await event.pass_by()
        else:
            on_delta(event)
