"""What can happen to a goal: a closed union of bodies, and the events that carry them, chained by hash.

An event is an immutable fact, numbered from 1 without gaps. Its order is `seq`, never the clock. Its payload is kept as
the text that was written, and the hash of each event covers that text and the hash before it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired

import orjson
from typing_extensions import TypedDict

from perdure.errors import Conflict, Damaged, Invalid
from perdure.kernel.history.codec import Codec
from perdure.kernel.history.frozen import constructor
from perdure.kernel.history.payloads import Layout
from perdure.kernel.history.upcasters import upcast
from perdure.moments import iso
from perdure.text.strict_json import require_finite

SCHEMA_VERSION = 2
NO_HASH = bytes(32)
"""Stands before the first event of a goal."""
FRAME_BYTES = 400
"""How many bytes of JSON an event has at most beside its payload: ids, seq, type, timestamp and hash."""

Effect = Literal["pure", "idempotent", "once"]
DecisionKind = Literal["approve", "deny", "answer", "retry", "skip", "abort", "elapsed", "cancel"]
Reason = Literal["done", "failed", "blocked", "no_progress", "repeated_failure", "cancelled", "fatal_error"]
LimitName = Literal["iterations", "tokens", "usd", "seconds"]
Happened = Literal["yes", "no", "unknown"]
MindKind = Literal["command", "plan", "flow", "model"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a goal may use; None is no limit."""

    iterations: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class MindSpec:
    """What decides, as written into the goal's first event: all that a resume needs to make the same mind again."""

    kind: MindKind
    plan: str | None = None
    flow: str | None = None
    """The name of the flow."""
    at: str | None = None
    """Where to import the flow from, `module:qualname`."""
    args: Any = None
    shell: bool | None = None
    cleanup: bool | None = None
    options: dict[str, Any] | None = None
    """What only a mind of this kind reads."""


class RuleSpec(TypedDict):
    """A verdict on the calls of a tool, by patterns at dotted paths of their arguments."""

    tool: str
    verdict: Literal["allow", "ask", "deny"]
    arguments: NotRequired[dict[str, str]]


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """What judges the calls that a model decides in a goal, as it was given at the start."""

    preset: str = "ask"
    rules: tuple[RuleSpec, ...] = ()
    """Beside those of the preset."""
    yes: bool = False
    """What is only asked about counts as approved."""


@dataclass(frozen=True, slots=True)
class ForkedFrom:
    """The last event that a fork shares with the goal it was made from."""

    goal_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class ParentCall:
    """The call of a goal that started a child goal."""

    goal_id: str
    call_id: str


@dataclass(frozen=True, slots=True)
class GoalBegun:
    """A goal, and all that it was started with."""

    text: str
    mind: MindSpec
    bot: str | None = None
    limits: Limits = field(default_factory=Limits)
    workdir: str | None = None
    forked_from: ForkedFrom | None = None
    parent: ParentCall | None = None
    voided: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    policy: PolicySpec | None = None
    """Null: a person is asked about each call of a model."""


@dataclass(frozen=True, slots=True)
class Message:
    """The mind said something."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The intent to run a tool, recorded before it starts; `until` is when it times out."""

    call_id: str
    step: str
    tool: str
    arguments: dict[str, Any]
    effect: Effect
    attempt: int = 1
    until: str | None = None
    by: str | None = None
    """Who decided it: `person`, `plan`, `flow` or `model:<bot>`; null: as the kind of the goal's mind says."""
    after: str | None = None
    """The call that has to be settled before this one can start."""
    child: str | None = None
    """The goal that it starts; the end of that goal is its outcome."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to a person; `until` is when the flow stops waiting for an answer."""

    call_id: str
    step: str
    question: str
    options: tuple[str, ...] | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait for a moment, for a signal, or for a signal until a moment."""

    call_id: str
    step: str
    until: str | None = None
    signal: str | None = None


@dataclass(frozen=True, slots=True)
class ToolError:
    """Why a call or a goal failed; what a Python exception adds is null where there was none."""

    code: str
    message: str
    type: str | None = None
    """The class of the exception, `module:QualName`."""
    args: Any = None
    """The arguments of the exception, if they are JSON."""
    traceback: str | None = None
    """The user's frames with their source lines, without local variables."""
    retryable: bool | None = None


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The outcome of a call; recorded at most once, and what was recorded is never run again.

    A pure step of a flow has no intent of its own: its outcome says which step it was, too.
    """

    call_id: str
    ok: bool = True
    output: Any = None
    error: ToolError | None = None
    duration_ms: int = 0
    usage: dict[str, Any] | None = None
    step: str | None = None
    digest: str | None = None
    effect: Effect | None = None
    meta: dict[str, Any] | None = None
    """What the step recorded about itself; it is not compared."""
    happened: Happened | None = None
    """Of a `once` call that was cancelled or has raised: whether it had its effect, as far as its check knows."""
    retry_after_s: float | None = None
    """Of a step of a flow that failed: when it is tried again, from its end; null if it is not, or at once."""
    tool: str = "step"
    """Of a call without an intent: its tool. Any other call names it in its intent."""


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """A call was begun and nobody knows how it ended; it waits for a decision."""

    call_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A person, a policy, a timer or the flow itself settled an open call."""

    call_id: str
    decision: DecisionKind
    value: Any = None
    by: str = "person"
    shown_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """Something outside told the goal something."""

    name: str
    payload: Any = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """The goal is being cancelled, and its flow cleans up before it ends."""

    by: str = "person"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LimitRaised:
    """A limit was raised on purpose."""

    name: LimitName
    value: float | None
    by: str = "person"


@dataclass(frozen=True, slots=True)
class Termination:
    """The end of a goal. Only `Reopened` may follow it."""

    reason: Reason
    detail: str | None = None
    value: Any = None
    error: ToolError | None = None
    steps: tuple[str, ...] | None = ()
    """The failed steps that the end came from; null in events of version 1, which do not say."""


@dataclass(frozen=True, slots=True)
class Reopened:
    """A failed goal is retried: its termination, event `ended_seq`, no longer counts."""

    by: str
    reason: str | None
    ended_seq: int
    again: tuple[str, ...] = ()
    """The failed calls whose steps are called again, under their next call ids."""
    unknown: tuple[str, ...] = ()
    """Failed calls that may have had their effect: their outcome is unknown and waits for a decision."""
    policy: PolicySpec | None = None
    """What judges the calls of models from now on; null: the policy that the goal had."""


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


Action = Message | ToolCall | Ask | Wait
Body = (
    GoalBegun
    | Action
    | ToolOutput
    | OutcomeUnknown
    | Decision
    | Signal
    | Cancel
    | LimitRaised
    | Termination
    | Reopened
    | Hold
    | Released
)


@dataclass(frozen=True, slots=True)
class Event:
    """A fact in the history of a goal, as it is stored: `payload` is the JSON text that was written."""

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

        Raises: Damaged when it is no JSON object.
        """
        try:
            content = orjson.loads(self.payload)
        except ValueError as error:
            raise unreadable(self, error) from error
        if not isinstance(content, dict):
            raise unreadable(self, TypeError("its payload is no JSON object"))
        return content

    def wire(self) -> dict[str, Any]:
        """Return the one JSON form of an event: REST, sockets, `--jsonl` and export.

        Raises: Damaged when its payload is no JSON.
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
        """Return the same as one line of JSON, with the payload exactly as it is stored."""
        outer = orjson.dumps({name: value for name, value in self.wire().items() if name not in ("payload", "hash")})
        return f'{outer[:-1].decode()},"payload":{self.payload},"hash":"{self.hash.hex()}"}}'


@dataclass(frozen=True, slots=True)
class Head:
    """Where the history of a goal ends."""

    goal_id: str
    seq: int = 0
    hash: bytes = NO_HASH


def encode(body: Body) -> tuple[str, str]:
    """Return the type and the payload text of a body.

    Raises: Invalid when a value in it is no JSON: NaN, infinity, a lone surrogate, a key that is no text.
    """
    name, content = _CODEC.write(body)
    try:
        require_finite(content)
        return name, orjson.dumps(content).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"A value cannot be kept as JSON: {error}.") from error


def content_of(body: Body) -> dict[str, Any]:
    """Return the payload of a body as a value, which is exactly what would be recorded.

    Raises: Invalid when a value in it is no JSON.
    """
    content: dict[str, Any] = orjson.loads(encode(body)[1])
    return content


def is_same_content(event_type: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Tell whether two payloads of one type say the same, whichever of their defaults are left out."""
    return _CODEC.is_same(event_type, left, right)


def decode(event: Event) -> Body:
    """Return the body of an event.

    Raises: Damaged, naming the seq, when the event is not what was written; Conflict when a newer Perdure wrote it.
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
    """Name an event that is not what was written."""
    return Damaged(f"Event {event.seq} of {event.goal_id} cannot be read ({error}).")


def _newer(event: Event, what: str) -> Conflict:
    return Conflict(f"Event {event.seq} of {event.goal_id} was written by a newer Perdure ({what}). Update this one.")


def seal(body: Body, head: Head, *, event_id: str, iteration: int, timestamp_us: int) -> Event:
    """Make the event that carries a body and follows the head of a history."""
    name, payload = encode(body)
    content = [head.goal_id, head.seq + 1, event_id, name, SCHEMA_VERSION, iteration, timestamp_us, payload]
    hash_ = _chain(head.hash, content)
    return make_event(head.goal_id, head.seq + 1, event_id, name, iteration, timestamp_us, payload, hash_)


def expected_hash(event: Event, previous: bytes) -> bytes:
    """Return the hash that an event must have if nothing was changed."""
    content = [
        *(event.goal_id, event.seq, event.id, event.type, event.v),
        *(event.iteration, event.timestamp_us, event.payload),
    ]
    return _chain(previous, content)


def size_of(payload_bytes: int) -> int:
    """Return the size of an event in its JSON form, by the size of its payload: at most a few bytes too much."""
    return payload_bytes + FRAME_BYTES


def fingerprint(payload: str) -> str:
    """Return the SHA-256 of exactly what a person is shown of an event: its payload as it is stored."""
    return hashlib.sha256(payload.encode()).hexdigest()


def _chain(previous: bytes, content: list[Any]) -> bytes:
    return hashlib.sha256(previous + orjson.dumps(content)).digest()


make_event = constructor(Event)
"""Makes an event of its fields, quicker than the class itself does."""
_ERROR = Layout(ToolError)
_POLICY = Layout(PolicySpec, rules=tuple)
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
    Hold: {"steps": tuple},
}
_CODEC = Codec(
    actions={"message": Message, "tool_call": ToolCall, "ask": Ask, "wait": Wait},
    events={
        "goal": GoalBegun,
        "tool_output": ToolOutput,
        "outcome_unknown": OutcomeUnknown,
        "decision": Decision,
        "signal": Signal,
        "cancel": Cancel,
        "limit": LimitRaised,
        "termination": Termination,
        "reopened": Reopened,
        "hold": Hold,
        "released": Released,
    },
    nested=_NESTED,
    quick=(ToolCall, ToolOutput),
)
