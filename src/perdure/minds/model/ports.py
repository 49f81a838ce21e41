"""The port of clients of models: a request, the answer while it arrives, and its failure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from perdure.errors import Unavailable
from perdure.kernel.conversation.parts import (
    FailureCode,
    FinishReason,
    Opaque,
    Part,
    TextPart,
    ThinkingPart,
    TokenUsage,
    ToolCallPart,
)
from perdure.kernel.tool import ToolSpec

__all__ = [
    "Delta",
    "DeltaReset",
    "FailureCode",
    "FinishReason",
    "ModelAnswer",
    "ModelClient",
    "ModelFailed",
    "ModelMessage",
    "ModelParts",
    "ModelRequest",
    "ModelSettings",
    "OnDelta",
    "Opaque",
    "Part",
    "TextPart",
    "ThinkingPart",
    "TokenUsage",
    "ToolCallPart",
    "ToolResult",
    "UserText",
]


@dataclass(frozen=True, slots=True)
class UserText:
    """A text from a person or the memory, or a correction."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelParts:
    """An earlier answer. Each of its tool calls has exactly one result directly after it."""

    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call of the last `ModelParts` before it."""

    call_id: str
    """The id in the `ToolCallPart`. Its provider identifies the call by `opaque.id` instead."""
    tool: str
    content: str
    ok: bool = True


ModelMessage = UserText | ModelParts | ToolResult


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Settings of a request; None: the default of the provider."""

    temperature: float | None = None
    max_tokens: int | None = None
    """The maximum length of the answer, including reasoning."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to a model. A client sends the `opaque` data of a part only to the provider that it comes from."""

    model: str
    """`provider:name`."""
    system: str
    messages: Sequence[ModelMessage]
    tools: Sequence[ToolSpec] = ()
    settings: ModelSettings = field(default_factory=ModelSettings)
    output_schema: Mapping[str, Any] | None = None
    """The JSON Schema of an object. The answer is then one `TextPart` whose text is JSON of that form: by the native
    structured output of the model, or by a tool that the client hides."""
    fallbacks: Sequence[str] = ()
    """The models to ask next, in order, when one does not answer."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the answer, as it arrives."""

    part: int
    """The index of the part in the answer, as in `ModelAnswer.parts`."""
    kind: Literal["text", "thinking", "arguments"]
    text: str
    offset: int
    """The position in the part, in code points."""


@dataclass(frozen=True, slots=True)
class DeltaReset:
    """The stream broke and the answer starts again: earlier deltas are invalid."""


OnDelta = Callable[[Delta | DeltaReset], None]
"""Called on the event loop of the request, in the order of arrival; must not block or raise."""


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A complete answer. The `call_id` of its tool calls is empty; the mind assigns it."""

    parts: Sequence[Part]
    finish_reason: FinishReason
    """Never `interrupted`, because a cancelled answer is not returned."""
    usage: TokenUsage
    cost_usd: float | None
    """None if the price is unknown; 0 for a model that runs on this machine."""
    model: str
    """The model that answered, `provider:name`: the requested one or a fallback."""
    provider: str
    response_id: str | None = None
    duration_ms: int = 0
    first_token_ms: int | None = None
    attempts: int = 1
    truncated: bool = False
    """Whether the client read only the beginning of the answer."""


class ModelFailed(Unavailable):
    """No model of a request has answered. The goal waits, and its next run retries."""

    def __init__(  # noqa: PLR0913 (each is a field of the event `model_failed`)
        self,
        code: FailureCode,
        message: str,
        *,
        model: str,
        provider: str,
        attempts: int = 1,
        retry_at_us: int | None = None,
        next: str | None = None,  # noqa: A002 (as in the event)
    ) -> None:
        super().__init__(message if next is None else f"{message.rstrip('.')}. Run `{next}`.")
        self.failure_code = code
        self.message = message
        self.model = model
        self.provider = provider
        self.attempts = attempts
        self.retry_at_us = retry_at_us
        """When to retry, in microseconds since 1970; None if a person must fix the cause."""
        self.next = next
        """The command that fixes it."""


class ModelClient(Protocol):
    """Sends requests to models. One client serves all requests of a process, also concurrent ones."""

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        """Send a request, pass pieces of the answer to `on_delta`, and return the whole answer.

        The client retries, waits and uses fallbacks within its deadlines. Cancellation ends the request at once and
        closes its stream. Texts may contain lone surrogates, which the caller must replace. Arguments that are not a
        JSON object, or are nested too deep, are `arguments_text`.

        Raises: ModelFailed; Invalid when the model or a setting does not exist.
        """
        ...

    def context_window(self, model: str) -> int:
        """Return the maximum tokens of a request and its answer together; 8,192 if unknown."""
        ...

    def cost_usd(self, model: str, usage: TokenUsage) -> float | None:
        """Return the cost of tokens; None if the price is unknown, 0 for a model on this machine.

        A limit in US dollars is compared with the cost of the longest answer that a request allows.
        """
        ...

    async def close(self) -> None:
        """End all requests and connections; no request may follow."""
        ...
