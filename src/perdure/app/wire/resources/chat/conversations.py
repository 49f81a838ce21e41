"""Conversations: transcripts, posted messages, and lists."""

from typing import Annotated, Any, Literal, TypeAlias

from typing_extensions import TypedDict

from perdure.app.wire.resources.goals import Failure, Goal
from perdure.app.wire.resources.models import ModelUsage
from perdure.app.wire.resources.vocabulary import DescribedBy, Moment, Schema

_UNIONS = "perdure.app.wire.resources.unions"


class PostedMessage(TypedDict):
    """A stored message; `pending` until the worker of the conversation has read it."""

    seq: Annotated[int | None, Schema(description="The seq of its event; null while it is pending.")]
    pending: bool


class Conversation(TypedDict):
    """A conversation in a list."""

    goal: Goal
    title: Annotated[str, Schema(description="The first 80 characters of the first message.")]
    messages: Annotated[int, Schema(description="Number of messages of the person.")]
    last_text: Annotated[str, Schema(description="The first 500 characters of the last message or answer.")]
    last_at: Annotated[Moment, Schema(description="Time of the last message or answer.")]


class _Entry(TypedDict):
    seq: int
    at: Moment


class MessageEntry(_Entry):
    """A message to the model: of a person, or records of the memory (`context`), with their ids in `refs`."""

    kind: Literal["message"]
    role: Literal["user", "context"]
    text: str
    by: str
    refs: list[str]


class TurnEntry(_Entry):
    """One answer of the model; the results of its tool calls follow as entries of their own."""

    kind: Literal["model_turn"]
    turn: int
    model: str
    parts: Annotated[list[dict[str, Any]], DescribedBy(f"{_UNIONS}:AnswerParts")]
    finish_reason: Literal["stop", "tool_calls", "length", "refusal", "interrupted", "empty"]
    usage: ModelUsage
    cost_usd: float | None
    duration_ms: int
    truncated: bool


class ResultEntry(_Entry):
    """The result of a tool call."""

    kind: Literal["tool_output"]
    call_id: str
    ok: bool
    output: Any
    error: Failure | None
    duration_ms: int


class DecisionEntry(_Entry):
    """The answer of a person to a question, or the decision to deny or skip a call."""

    kind: Literal["decision"]
    call_id: str
    decision: str
    value: Any
    by: str


class SummaryEntry(_Entry):
    """A summary that replaces events in later requests to the model."""

    kind: Literal["summary"]
    from_seq: int
    to_seq: int
    text: str
    model: str


TranscriptEntry: TypeAlias = MessageEntry | TurnEntry | ResultEntry | DecisionEntry | SummaryEntry
