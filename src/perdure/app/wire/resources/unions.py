"""The unions of the wire with their names and discriminators: what OpenAPI needs beside the TypedDicts."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, RootModel

from perdure.app.wire.resources import events
from perdure.forge.turns import BuilderTurn
from perdure.kernel.events import Ask, Message, ToolCall, Wait


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


class Event(RootModel[Annotated[events.Event, Field(discriminator="type")]]):
    """One event of a goal."""


class Turn(RootModel[BuilderTurn]):
    """What the builder asks or shows, by `action`."""
