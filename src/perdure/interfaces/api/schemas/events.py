"""The events of a goal: a union by `type`, whose payloads are the bodies of the kernel as they are recorded.

A field that has its default is left out. The step of a call is left out where its id, `<step>.<attempt>`, says it.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field, RootModel

from perdure.interfaces.api.schemas.envelopes import Moment
from perdure.kernel.events import (
    Ask,
    Cancel,
    Decision,
    GoalBegun,
    Hold,
    LimitRaised,
    Message,
    OutcomeUnknown,
    Released,
    Reopened,
    Signal,
    Termination,
    ToolCall,
    ToolOutput,
    Wait,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAction(Message):
    """A message of the mind."""

    kind: Literal["message"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallAction(ToolCall):
    """The intent to run a tool, recorded before it starts. Without a step, `call_id` is `<step>.<attempt>`."""

    step: str = ""
    kind: Literal["tool_call"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskAction(Ask):
    """A question to a person. Without a step, `call_id` is `<step>.1`."""

    step: str = ""
    kind: Literal["ask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitAction(Wait):
    """A wait for a moment or for a signal. Without a step, `call_id` is `<step>.1`."""

    step: str = ""
    kind: Literal["wait"]


class Action(
    RootModel[Annotated[MessageAction | ToolCallAction | AskAction | WaitAction, Field(discriminator="kind")]]
):
    """What the mind decided to do."""


class _Head(BaseModel):
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
    payload: GoalBegun


class ActionEvent(_Head):
    """A decision of the mind."""

    type: Literal["action"]
    payload: Action


class ToolOutputEvent(_Head):
    """The outcome of a call."""

    type: Literal["tool_output"]
    payload: ToolOutput


class OutcomeUnknownEvent(_Head):
    """A call that was started and whose outcome is not known."""

    type: Literal["outcome_unknown"]
    payload: OutcomeUnknown


class DecisionEvent(_Head):
    """A decision about an open call."""

    type: Literal["decision"]
    payload: Decision


class SignalEvent(_Head):
    """A signal from outside."""

    type: Literal["signal"]
    payload: Signal


class CancelEvent(_Head):
    """A cancel of a goal whose flow cleans up before the goal ends."""

    type: Literal["cancel"]
    payload: Cancel


class LimitEvent(_Head):
    """A raised limit."""

    type: Literal["limit"]
    payload: LimitRaised


class TerminationEvent(_Head):
    """The end of a goal. Only `reopened` may follow it."""

    type: Literal["termination"]
    payload: Termination


class ReopenedEvent(_Head):
    """A failed goal is retried."""

    type: Literal["reopened"]
    payload: Reopened


class HoldEvent(_Head):
    """The goal is not run automatically until a person resumes it."""

    type: Literal["hold"]
    payload: Hold


class ReleasedEvent(_Head):
    """A person resumed a goal that was on hold."""

    type: Literal["released"]
    payload: Released


class Event(
    RootModel[
        Annotated[
            GoalEvent
            | ActionEvent
            | ToolOutputEvent
            | OutcomeUnknownEvent
            | DecisionEvent
            | SignalEvent
            | CancelEvent
            | LimitEvent
            | TerminationEvent
            | ReopenedEvent
            | HoldEvent
            | ReleasedEvent,
            Field(discriminator="type"),
        ]
    ]
):
    """One event of a goal."""
