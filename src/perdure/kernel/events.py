"""The events of a goal: a closed union of bodies, carried by events that are chained by hash.

An event is an immutable fact. Events are numbered from 1 without gaps, and ordered by this `seq`, never by the clock. A
payload is stored as the text that was written; the hash of an event covers that text and the hash of the event before.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from perdure.errors import Conflict, Damaged, Invalid
from perdure.kernel.bodies.calls import (
    Ask,
    Decision,
    DecisionKind,
    Effect,
    Happened,
    OutcomeUnknown,
    ToolCall,
    ToolError,
    ToolOutput,
    Wait,
)
from perdure.kernel.bodies.goal import (
    ForkedFrom,
    GoalBegun,
    LimitName,
    Limits,
    MindKind,
    MindSpec,
    ParentCall,
    PolicySpec,
    RuleSpec,
)
from perdure.kernel.conversation.messages import Entry, Message, ModelFailure, ModelTurn, Prompt, TranscriptSummary
from perdure.kernel.conversation.parts import Opaque, TextPart, ThinkingPart, TokenUsage, ToolCallPart
from perdure.kernel.history.codec import Codec
from perdure.kernel.history.frozen import constructor
from perdure.kernel.history.payloads import Choices, Layout
from perdure.kernel.history.upcasters import upcast
from perdure.text.moments import iso
from perdure.text.strict_json import require_finite

__all__ = [
    "FRAME_BYTES",
    "NO_HASH",
    "SCHEMA_VERSION",
    "Action",
    "Ask",
    "Body",
    "Cancel",
    "Decision",
    "DecisionKind",
    "Effect",
    "Entry",
    "Event",
    "ForkedFrom",
    "GoalBegun",
    "Happened",
    "Head",
    "Hold",
    "LimitName",
    "LimitRaised",
    "LimitReached",
    "Limits",
    "Message",
    "MindKind",
    "MindSpec",
    "ModelFailure",
    "ModelTurn",
    "OutcomeUnknown",
    "ParentCall",
    "PolicySpec",
    "Prompt",
    "Reason",
    "Released",
    "Reopened",
    "RuleSpec",
    "Signal",
    "Termination",
    "ToolCall",
    "ToolError",
    "ToolOutput",
    "TranscriptSummary",
    "Wait",
    "content_of",
    "decode",
    "encode",
    "expected_hash",
    "fingerprint",
    "is_same_content",
    "make_event",
    "seal",
    "size_of",
    "unreadable",
]

SCHEMA_VERSION = 3
"""Since version 3, a history of a flow has the timers that have fired."""
NO_HASH = bytes(32)
"""The previous hash of the first event of a goal."""
FRAME_BYTES = 400
"""The maximum size in bytes of the JSON of an event without its payload: ids, seq, type, timestamp and hash."""

Reason = Literal["done", "failed", "blocked", "no_progress", "repeated_failure", "cancelled", "fatal_error"]


@dataclass(frozen=True, slots=True)
class Signal:
    """A named message to the goal from outside."""

    name: str
    payload: Any = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """The goal was cancelled; its flow cleans up before the goal ends."""

    by: str = "person"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LimitRaised:
    """A person raised a limit."""

    name: LimitName
    value: float | None
    by: str = "person"


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The next request to a model may use more than is left of a limit."""

    name: LimitName
    left: float
    needed: float


@dataclass(frozen=True, slots=True)
class Termination:
    """The end of a goal. Only `Reopened` may follow it."""

    reason: Reason
    detail: str | None = None
    value: Any = None
    error: ToolError | None = None
    steps: tuple[str, ...] | None = ()
    """The failed steps that caused the end; null in events of version 1, which do not record them."""


@dataclass(frozen=True, slots=True)
class Reopened:
    """A failed goal is retried: its termination, event `ended_seq`, no longer counts."""

    by: str
    reason: str | None
    ended_seq: int
    again: tuple[str, ...] = ()
    """The failed calls whose steps are called again, under their next call ids."""
    unknown: tuple[str, ...] = ()
    """Failed calls that may have had their effect: their outcome is unknown, and they wait for a decision."""
    policy: PolicySpec | None = None
    """The policy for later calls of models; null: unchanged."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The goal is not run automatically until a person resumes it."""

    reason: Literal["crash_loop"]
    deaths: int
    steps: tuple[str, ...] = ()
    """The steps that were open when the last worker died."""


@dataclass(frozen=True, slots=True)
class Released:
    """A person resumed a goal that was on hold."""

    by: str = "person"


Action = ToolCall | Ask | Wait
Body = (
    GoalBegun
    | Action
    | Entry
    | Prompt
    | ModelFailure
    | ToolOutput
    | OutcomeUnknown
    | Decision
    | Signal
    | Cancel
    | LimitRaised
    | LimitReached
    | Termination
    | Reopened
    | Hold
    | Released
)


@dataclass(frozen=True, slots=True)
class Event:
    """An event in the history of a goal, as stored: `payload` is the JSON text that was written."""

    goal_id: str
    seq: int
    id: str
    type: str
    iteration: int
    timestamp_us: int
    payload: str
    hash: bytes
    v: int = SCHEMA_VERSION

    def content(self) -> dict[str, Any]:
        """Return the payload as a value.

        Raises: Damaged when it is not a JSON object.
        """
        try:
            content = orjson.loads(self.payload)
        except ValueError as error:
            raise unreadable(self, error) from error
        if not isinstance(content, dict):
            raise unreadable(self, TypeError("its payload is not a JSON object"))
        return content

    def wire(self) -> dict[str, Any]:
        """Return the one JSON form of an event: REST, sockets, `--jsonl` and export.

        Raises: Damaged when its payload is not JSON.
        """
        return {
            "v": self.v,
            "goal_id": self.goal_id,
            "seq": self.seq,
            "id": self.id,
            "type": self.type,
            "iteration": self.iteration,
            "timestamp": iso(self.timestamp_us),
            "payload": self.content(),
            "hash": self.hash.hex(),
        }

    def line(self) -> str:
        """Return the same form as one line of JSON, with the payload exactly as stored."""
        outer = orjson.dumps({name: value for name, value in self.wire().items() if name not in ("payload", "hash")})
        return f'{outer[:-1].decode()},"payload":{self.payload},"hash":"{self.hash.hex()}"}}'


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the history of a goal."""

    goal_id: str
    seq: int = 0
    hash: bytes = NO_HASH


def encode(body: Body) -> tuple[str, str]:
    """Return the type and the payload text of a body.

    Raises: Invalid when a value in it is not JSON: NaN, infinity, a lone surrogate, a key that is not text.
    """
    name, content = _CODEC.write(body)
    try:
        require_finite(content)
        return name, orjson.dumps(content).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"A value cannot be stored as JSON: {error}.") from error


def content_of(body: Body) -> dict[str, Any]:
    """Return the payload of a body as a value, exactly as it would be recorded.

    Raises: Invalid when a value in it is not JSON.
    """
    content: dict[str, Any] = orjson.loads(encode(body)[1])
    return content


def is_same_content(event_type: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Return whether two payloads of one type are equal, where a missing field equals its default."""
    return _CODEC.is_same(event_type, left, right)


def decode(event: Event) -> Body:
    """Return the body of an event.

    Raises: Damaged, naming the seq, when the event cannot be read; Conflict when a newer Perdure wrote it.
    """
    if event.v > SCHEMA_VERSION:
        raise _newer(event, f"version {event.v}")
    try:
        content = orjson.loads(event.payload)
        if event.v < SCHEMA_VERSION:
            content = upcast(event.type, event.v, content)
        body: Body = _CODEC.read(event.type, content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        unknown = _CODEC.unknown_part(event.type, event.content())
        raise (unreadable(event, error) if unknown is None else _newer(event, unknown)) from error
    return body


def unreadable(event: Event, error: Exception) -> Damaged:
    """Return the error for an event that cannot be read."""
    return Damaged(f"Event {event.seq} of {event.goal_id} cannot be read ({error}).")


def _newer(event: Event, what: str) -> Conflict:
    return Conflict(
        f"Event {event.seq} of {event.goal_id} was written by a newer Perdure ({what}). Install the newer Perdure here."
    )


def seal(body: Body, head: Head, *, event_id: str, iteration: int, timestamp_us: int) -> Event:
    """Return the event that carries a body and follows the head of a history."""
    name, payload = encode(body)
    content = [head.goal_id, head.seq + 1, event_id, name, SCHEMA_VERSION, iteration, timestamp_us, payload]
    hash_ = _chain(head.hash, content)
    return make_event(head.goal_id, head.seq + 1, event_id, name, iteration, timestamp_us, payload, hash_)


def expected_hash(event: Event, previous: bytes) -> bytes:
    """Return the hash that an unchanged event has."""
    head = [event.goal_id, event.seq, event.id, event.type, event.v]
    content = [*head, event.iteration, event.timestamp_us, event.payload]
    return _chain(previous, content)


def size_of(payload_bytes: int) -> int:
    """Return an upper bound of the size of an event in its JSON form, given the size of its payload."""
    return payload_bytes + FRAME_BYTES


def fingerprint(payload: str) -> str:
    """Return the SHA-256 of the stored payload of an event, which is what a person sees and approves."""
    return hashlib.sha256(payload.encode()).hexdigest()


def _chain(previous: bytes, content: list[Any]) -> bytes:
    return hashlib.sha256(previous + orjson.dumps(content)).digest()


make_event = constructor(Event)
"""Constructs an event, faster than the class itself."""
_ERROR = Layout(ToolError)
_POLICY = Layout(PolicySpec, rules=tuple)
_OPAQUE = Layout(Opaque)
_NESTED: dict[type, dict[str, Any]] = {
    GoalBegun: {
        "mind": Layout(MindSpec),
        "limits": Layout(Limits),
        "forked_from": Layout(ForkedFrom),
        "parent": Layout(ParentCall),
        "policy": _POLICY,
        "voided": tuple,
        "tags": tuple,
    },
    Ask: {"options": tuple},
    ToolOutput: {"error": _ERROR},
    Termination: {"error": _ERROR, "steps": tuple},
    Reopened: {"again": tuple, "unknown": tuple, "policy": _POLICY},
    Message: {"refs": tuple},
    Prompt: {"tools": tuple},
    ModelTurn: {
        "usage": Layout(TokenUsage),
        "parts": Choices(
            text=Layout(TextPart, opaque=_OPAQUE),
            thinking=Layout(ThinkingPart, opaque=_OPAQUE),
            tool_call=Layout(ToolCallPart, opaque=_OPAQUE),
        ),
    },
    TranscriptSummary: {"usage": Layout(TokenUsage)},
    Hold: {"steps": tuple},
}
_CODEC = Codec(
    actions={"tool_call": ToolCall, "ask": Ask, "wait": Wait},
    events={
        "goal": GoalBegun,
        "message": Message,
        "prompt": Prompt,
        "model_turn": ModelTurn,
        "summary": TranscriptSummary,
        "model_failed": ModelFailure,
        "tool_output": ToolOutput,
        "outcome_unknown": OutcomeUnknown,
        "decision": Decision,
        "signal": Signal,
        "cancel": Cancel,
        "limit": LimitRaised,
        "limit_reached": LimitReached,
        "termination": Termination,
        "reopened": Reopened,
        "hold": Hold,
        "released": Released,
    },
    nested=_NESTED,
    quick=(ToolCall, ToolOutput),
)
