"""The events of a goal: one TypedDict for each type, whose payload is the kernel's body as it is recorded.

The kernel's classes are the definition of the payloads. A field with its default value is omitted; so is the step of a
call if it can be derived from the id, `<step>.<attempt>`.
"""

from typing import Annotated, Any, Literal, TypeAlias

from typing_extensions import TypedDict

from perdure.app.wire.resources.vocabulary import DescribedBy, Moment

_UNIONS = "perdure.app.wire.resources.unions"
_BODIES = "perdure.kernel.events"


class _Head(TypedDict):
    v: int
    goal_id: str
    seq: int
    id: str
    iteration: int
    timestamp: Moment
    hash: str


class GoalEvent(_Head):
    """The start of a goal: always the first event."""

    type: Literal["goal"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:GoalBegun")]


class MessageEvent(_Head):
    """A message to the model."""

    type: Literal["message"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:Message")]


class PromptEvent(_Head):
    """The prompt with which every later request to the model starts."""

    type: Literal["prompt"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:Prompt")]


class ModelTurnEvent(_Head):
    """One answer of the model."""

    type: Literal["model_turn"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_UNIONS}:ModelTurn")]


class SummaryEvent(_Head):
    """A summary that replaces events in later requests to the model."""

    type: Literal["summary"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:TranscriptSummary")]


class ModelFailedEvent(_Head):
    """The model gave no answer, and the run of the goal ended."""

    type: Literal["model_failed"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:ModelFailure")]


class ActionEvent(_Head):
    """A decision of the mind."""

    type: Literal["action"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_UNIONS}:Action")]


class ToolOutputEvent(_Head):
    """The outcome of a call."""

    type: Literal["tool_output"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:ToolOutput")]


class OutcomeUnknownEvent(_Head):
    """A call that was started, but whose outcome is unknown."""

    type: Literal["outcome_unknown"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:OutcomeUnknown")]


class DecisionEvent(_Head):
    """A decision on an open call."""

    type: Literal["decision"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:Decision")]


class SignalEvent(_Head):
    """A signal from outside."""

    type: Literal["signal"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:Signal")]


class CancelEvent(_Head):
    """A cancel of a goal whose flow cleans up before the goal ends."""

    type: Literal["cancel"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:Cancel")]


class LimitEvent(_Head):
    """A raised limit."""

    type: Literal["limit"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:LimitRaised")]


class LimitReachedEvent(_Head):
    """The rest of a limit is too small for the next request to the model."""

    type: Literal["limit_reached"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:LimitReached")]


class TerminationEvent(_Head):
    """The end of a goal. Only `reopened` may follow it."""

    type: Literal["termination"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:Termination")]


class ReopenedEvent(_Head):
    """A failed goal is retried."""

    type: Literal["reopened"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:Reopened")]


class HoldEvent(_Head):
    """The goal is not run automatically until a person resumes it."""

    type: Literal["hold"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:Hold")]


class ReleasedEvent(_Head):
    """A person resumed a goal that was on hold."""

    type: Literal["released"]
    payload: Annotated[dict[str, Any], DescribedBy(f"{_BODIES}:Released")]


Event: TypeAlias = (
    GoalEvent
    | MessageEvent
    | PromptEvent
    | ModelTurnEvent
    | SummaryEvent
    | ModelFailedEvent
    | ActionEvent
    | ToolOutputEvent
    | OutcomeUnknownEvent
    | DecisionEvent
    | SignalEvent
    | CancelEvent
    | LimitEvent
    | LimitReachedEvent
    | TerminationEvent
    | ReopenedEvent
    | HoldEvent
    | ReleasedEvent
)
