"""The parts of a model's answer, why it ended, and what it used."""

from dataclasses import dataclass
from typing import Any, Literal

FinishReason = Literal["stop", "tool_calls", "length", "refusal", "interrupted", "empty"]
FailureCode = Literal["auth", "unreachable", "rate_limited", "overloaded", "timeout", "rejected", "no_extra"]


@dataclass(frozen=True, slots=True)
class Opaque:
    """Data that a provider adds to a part: it is sent back unchanged, and only to that provider."""

    provider: str
    id: str | None = None
    """The provider's id of the part. The result of a tool call must have the same id."""
    signature: str | None = None
    details: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text for the person."""

    text: str
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """The reasoning of the model before its answer; empty if the provider hides it."""

    text: str = ""
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A call of a tool: `arguments` is what the model sent if it was a JSON object, else `arguments_text` is."""

    call_id: str
    """The id of the call in the goal, `t<turn>.<n>`; empty as long as the answer is not recorded."""
    tool: str
    arguments: dict[str, Any] | None = None
    arguments_text: str | None = None
    opaque: Opaque | None = None


Part = TextPart | ThinkingPart | ToolCallPart


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The tokens of one request; `input` contains those of the cache, `output` those of the reasoning."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    estimated: bool = False
    """Whether the provider reported no usage, and it was estimated from the length of the texts."""

    @property
    def total(self) -> int:
        return self.input + self.output
