"""The port between the mind and the providers of models: a request, the answer while it arrives, and its failure."""

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
    """What a person or the memory says, or the host of the model corrects."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelParts:
    """An earlier answer. Each of its tool calls has exactly one result right after it."""

    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call of the last `ModelParts` before it."""

    call_id: str
    """As in the `ToolCallPart`; its `opaque.id`, if that is of the same provider, is what the provider knows it by."""
    tool: str
    content: str
    ok: bool = True


ModelMessage = UserText | ModelParts | ToolResult


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model answers; None leaves it to the provider."""

    temperature: float | None = None
    max_tokens: int | None = None
    """The longest answer, its reasoning included."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """All that a model is asked with. A client sends of each part only the `opaque` of the provider that it asks."""

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
    """How many code points of this part came before."""


@dataclass(frozen=True, slots=True)
class DeltaReset:
    """The stream broke, and the answer begins anew: the deltas so far do not count."""


OnDelta = Callable[[Delta | DeltaReset], None]
"""Called on the event loop of the request, in the order of arrival; it does not block and does not raise."""


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A whole answer. The `call_id` of its tool calls is empty: the mind names them."""

    parts: Sequence[Part]
    finish_reason: FinishReason
    """Never `interrupted`: an answer that was cancelled is not returned."""
    usage: TokenUsage
    cost_usd: float | None
    """None where the price is unknown; 0 for a model that runs on this machine."""
    model: str
    """The model that has answered, `provider:name`: one of the fallbacks, if the first did not."""
    provider: str
    response_id: str | None = None
    duration_ms: int = 0
    first_token_ms: int | None = None
    attempts: int = 1
    truncated: bool = False
    """Whether the client has read only the beginning of the answer."""


class ModelFailed(Unavailable):
    """No model of a request has answered. The goal waits, and its next run asks again."""

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
        super().__init__(message if next is None else f"{message} {next}")
        self.failure_code = code
        self.message = message
        self.model = model
        self.provider = provider
        self.attempts = attempts
        self.retry_at_us = retry_at_us
        """When to ask again, in microseconds since 1970; None where only a person can fix it."""
        self.next = next
        """The command that fixes it."""


class ModelClient(Protocol):
    """Asks models. One client serves all requests of a process, also several at once."""

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        """Ask a model, and return its whole answer; what arrives is passed to `on_delta` before.

        The client retries, waits and falls back within its deadlines. Cancelling ends the request at once and closes
        its stream; the caller keeps what it was passed by then. Lone surrogates may be in any text: the caller
        replaces them. Arguments that are not a JSON object, or nested too deep to read, are `arguments_text`.

        Raises: ModelFailed; Invalid when no such model or setting exists.
        """
        ...

    def context_window(self, model: str) -> int:
        """Return how many tokens a request and its answer have together at most: 8,192 where that is not known."""
        ...

    def cost_usd(self, model: str, usage: TokenUsage) -> float | None:
        """Return what tokens of a model cost; None where the price is unknown, 0 for a model of this machine.

        A limit in US dollars is compared with the cost of the largest answer that a request allows.
        """
        ...

    async def close(self) -> None:
        """End all requests and connections; nothing is asked any more."""
        ...
