"""The answers of a script: texts, calls, faults and delays."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Finish = Literal["stop", "length", "refusal"]


@dataclass(frozen=True)
class ScriptedCall:
    """One tool call of an answer; arguments that are a text are sent unchanged, valid JSON or not."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)

    @property
    def arguments_text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class ScriptedUsage:
    """The tokens that an answer reports."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0


@dataclass(frozen=True)
class ScriptedAnswer:
    """One answer, or one fault instead of it."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    data: Any = None
    """Structured output: sent as text when the request has a schema for it, else as a call of the output tool."""
    finish: Finish = "stop"
    usage: ScriptedUsage | None = None
    """The usage that the answer reports (default: computed from the lengths of the texts)."""
    reports_usage: bool = True

    match: str = ""
    """The answer is for requests whose last user message contains this text."""

    status: int = 200
    """An HTTP status other than 200 is sent instead of the answer."""
    message: str = ""
    """The message of an error."""
    retry_after: str = ""
    """The header `Retry-After` of an error."""
    raw: str | None = None
    """The whole body of the response, sent as an event stream instead of the answer."""
    raw_bytes: bytes | None = None
    """The bytes that are sent on the connection instead of an HTTP response."""
    error_after: int | None = None
    """The provider reports an error in the stream after this many deltas."""
    error_type: str = "overloaded_error"
    """The type of that error."""

    characters: int = 8
    """Number of characters in a delta."""
    first_byte_s: float = 0.0
    """Pause before the first byte of the response."""
    between_s: float = 0.0
    """Pause between two deltas."""
    hold_after: int | None = None
    """The response stops after this many deltas until `ModelServer.release` is called; 0: before its first byte."""
    cut_after: int | None = None
    """The connection is aborted after this many deltas; 0: before the first one."""
    end_after: int | None = None
    """The response ends properly after this many deltas, without the events that complete an answer."""

    @property
    def is_complete(self) -> bool:
        """Return whether a client receives the whole answer."""
        faults = (self.raw, self.raw_bytes, self.cut_after, self.end_after, self.error_after)
        return self.status == 200 and all(fault is None for fault in faults)

    def pieces(self, text: str) -> Iterator[str]:
        """Split a text into the texts of the deltas."""
        for start in range(0, len(text), self.characters):
            yield text[start : start + self.characters]
