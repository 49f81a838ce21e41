"""The unions of the wire with their names and discriminators, which only the OpenAPI document needs."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, RootModel

from perdure.app.wire.resources import events
from perdure.app.wire.resources.chat import conversations
from perdure.forge.turns import BuilderTurn
from perdure.kernel.conversation import messages
from perdure.kernel.conversation.parts import TextPart, ThinkingPart, ToolCallPart
from perdure.kernel.events import Ask, ToolCall, Wait


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerText(TextPart):
    """Text for the person."""

    kind: Literal["text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerThinking(ThinkingPart):
    """The reasoning of the model before its answer."""

    kind: Literal["thinking"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerToolCall(ToolCallPart):
    """A call of a tool; `arguments_text` has the arguments if the model sent no JSON object."""

    kind: Literal["tool_call"]


AnswerPart: TypeAlias = Annotated[AnswerText | AnswerThinking | AnswerToolCall, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurn(messages.ModelTurn):
    """One answer of the model. Its tool calls follow as actions."""

    parts: tuple[AnswerPart, ...] = ()


class Action(RootModel[Annotated[ToolCallAction | AskAction | WaitAction, Field(discriminator="kind")]]):
    """An action that the mind has decided."""


class AnswerParts(RootModel[list[AnswerPart]]):
    """The parts of an answer, in order."""


class TranscriptEntry(RootModel[Annotated[conversations.TranscriptEntry, Field(discriminator="kind")]]):
    """An entry of the transcript of a goal of a model."""


class Event(RootModel[Annotated[events.Event, Field(discriminator="type")]]):
    """One event of a goal."""


class Turn(RootModel[BuilderTurn]):
    """A turn of the builder, discriminated by `action`."""
