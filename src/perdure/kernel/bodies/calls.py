"""The calls of a goal: their intents, their outcomes, and the decisions about them."""

from dataclasses import dataclass
from typing import Any, Literal

Effect = Literal["pure", "idempotent", "once"]
DecisionKind = Literal["approve", "deny", "answer", "retry", "skip", "abort", "elapsed", "cancel"]
Happened = Literal["yes", "no", "unknown"]


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
    """The decider of the call: `person`, `plan`, `flow` or `model:<bot>`; null: that of the goal's kind of mind."""
    after: str | None = None
    """The call that has to be settled before this one can start."""
    turn: int | None = None
    """The turn of the model that decided it."""
    child: str | None = None
    """The id of the child goal that the call starts; the end of that goal is the outcome of the call."""
    returns: str | None = None
    """The type of the result of a `once` step, unless it can be null; shown to a person who enters the result."""


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
    """The error of a failed call or goal. The fields of a Python exception are null if none was raised."""

    code: str
    message: str
    type: str | None = None
    """The class of the exception, `module:QualName`."""
    args: Any = None
    """The arguments of the exception, if they are JSON."""
    traceback: str | None = None
    """The user's frames with their source lines, without local variables."""
    retryable: bool | None = None
    attributes: dict[str, Any] | None = None
    """The attributes of the exception that are JSON; None without any."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The outcome of a call. It is recorded at most once, and a call with an outcome is never run again.

    A pure step of a flow has no intent: its outcome also names the step.
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
    """Metadata that the step recorded; ignored when histories are compared."""
    happened: Happened | None = None
    """Whether a `once` call that was cancelled or raised had its effect, according to its check."""
    retry_after_s: float | None = None
    """Seconds from the failure of a step to its next attempt; null without another attempt, or if it starts at once."""
    tool: str = "step"
    """The tool of a call without an intent. Other calls name their tool in the intent."""


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    """A call was started and its outcome is unknown; it waits for a decision."""

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
