"""The events of a conversation: messages, prompts, turns of the model, summaries and failures."""

from dataclasses import dataclass, field
from typing import Any, Literal

from typing_extensions import TypedDict

from perdure.kernel.conversation.parts import FailureCode, FinishReason, Part, TokenUsage

Role = Literal["user", "context"]


@dataclass(frozen=True, slots=True)
class Message:
    """A message to the model: from a person, or records of the memory that are related to the goal."""

    text: str
    role: Role = "user"
    by: str = "person"
    """`person`, `memory` or `goal:<id>`."""
    refs: tuple[str, ...] = ()
    """The ids of the records that a message with the role `context` quotes."""


class PromptTool(TypedDict):
    """The description of a tool in a prompt, with the source of the tool."""

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Literal["pure", "idempotent", "once"]
    source: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """The beginning of every request: recorded before the first request, and at every change."""

    sha256: str
    """The hash of the other fields, as canonical JSON."""
    model: str
    """`provider:name`."""
    system: str
    tools: tuple[PromptTool, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One answer of a model. Its tool calls follow as actions, in the same append."""

    turn: int
    model: str
    """The model that answered, `provider:name`; a fallback may have done so."""
    provider: str
    parts: tuple[Part, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: TokenUsage = field(default_factory=TokenUsage)
    cost_usd: float | None = None
    """Null where the price is unknown."""
    duration_ms: int = 0
    first_token_ms: int | None = None
    attempts: int = 1
    response_id: str | None = None
    request_sha256: str | None = None
    """For audit; it is never compared."""
    truncated: bool = False
    """Whether only a part of the answer is recorded, because it was too long."""


@dataclass(frozen=True, slots=True)
class TranscriptSummary:
    """Replaces events of the transcript in later requests; the events stay in the history."""

    from_seq: int
    to_seq: int
    text: str
    model: str
    usage: TokenUsage = field(default_factory=TokenUsage)
    cost_usd: float | None = None
    duration_ms: int = 0


Entry = Message | ModelTurn | TranscriptSummary
"""The parts of a conversation, apart from calls and their results."""


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """A model gave no answer. The run of the goal ends, and the next run asks again."""

    model: str
    provider: str
    code: FailureCode
    message: str
    attempts: int = 1
    retry_at: str | None = None
    """When the goal continues by itself."""
    next: str | None = None
    """The command that fixes it."""
