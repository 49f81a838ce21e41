"""The calls of a goal: their intents, their outcomes, and what is decided about them."""

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
    """Who decided it: `person`, `plan`, `flow` or `model:<bot>`; null: as the kind of the goal's mind says."""
    after: str | None = None
    """The call that has to be settled before this one can start."""
    turn: int | None = None
    """The turn of the model that decided it."""
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
