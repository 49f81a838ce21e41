"""The state of a conversation, folded from its events."""

from dataclasses import dataclass, field, replace

from perdure.kernel.conversation.messages import Entry, Message, ModelFailure, ModelTurn, Prompt
from perdure.kernel.conversation.parts import TextPart, ToolCallPart
from perdure.text.storable import escaped

MOST_FRUITLESS = 3
"""The model is not asked again after this number of fruitless turns in a row. See `is_fruitless`."""
LONGEST_TITLE = 80
LONGEST_LAST_TEXT = 500


@dataclass(frozen=True, slots=True)
class Overview:
    """A conversation as lists show it."""

    title: str
    """The beginning of the first message, at most `LONGEST_TITLE` characters."""
    messages: int
    """The number of messages of the person."""
    last_text: str
    """The beginning of the last message or answer, at most `LONGEST_LAST_TEXT` characters."""
    last_us: int
    """The time of the last message or answer."""


@dataclass(slots=True)
class Conversation:
    """The conversation of a goal, in the order of its events; only the fold changes it."""

    entries: list[tuple[int, Entry]] = field(default_factory=list)
    """Messages, turns and summaries, each with the seq of its event. See kernel.deciding.transcript."""
    prompt: Prompt | None = None
    """The beginning of every request; None before the first."""
    prompts: list[tuple[int, Prompt]] = field(default_factory=list)
    """The prompts so far, each with the seq of its event."""
    chosen: str | None = None
    """The model that was chosen for a fork, until the next prompt records it."""
    last: Message | ModelTurn | None = None
    """The last message of a person, or turn of the model."""
    turns: int = 0
    """The number of the last turn."""
    message_seq: int = 0
    """The event of the last message of a person. Guards and the limit of iterations count from it."""
    fruitless: int = 0
    """The number of fruitless turns in a row since then."""
    failure: ModelFailure | None = None
    failure_seq: int = 0
    """The event of the last failure of a model."""
    overview: Overview | None = None
    """None before the first message of a person."""

    @property
    def is_answered(self) -> bool:
        """Whether the last turn is a whole answer that calls no tool."""
        return isinstance(self.last, ModelTurn) and is_answer(self.last)

    @property
    def awaits_message(self) -> bool:
        """Whether a chat without open calls waits for the next message of a person."""
        if not isinstance(self.last, ModelTurn):
            return self.last is None
        is_given_up = self.fruitless >= MOST_FRUITLESS
        return self.is_answered or self.last.finish_reason == "interrupted" or is_given_up

    def take(self, body: Entry | Prompt | ModelFailure, seq: int, at_us: int) -> None:
        """Apply a message, turn or summary, a prompt, or a failure of the model."""
        if isinstance(body, Prompt):
            self.prompt, self.chosen = body, None
            self.prompts.append((seq, body))
            return
        if isinstance(body, ModelFailure):
            self.failure, self.failure_seq = body, seq
            return
        self.entries.append((seq, body))
        match body:
            case Message(role="user"):
                self.last, self.message_seq, self.fruitless = body, seq, 0
                self._begin_overview(body.text, at_us)
            case ModelTurn():
                self.last, self.turns = body, body.turn
                self.fruitless = self.fruitless + 1 if is_fruitless(body) else 0
                self._renew_overview(text_of(body), at_us)
            case _:
                pass

    def _begin_overview(self, message: str, at_us: int) -> None:
        """Count a message of the person; the first one is the title."""
        before = self.overview
        title = _beginning(message, LONGEST_TITLE) if before is None else before.title
        count = 1 if before is None else before.messages + 1
        self.overview = Overview(title, count, _beginning(message, LONGEST_LAST_TEXT), at_us)

    def _renew_overview(self, answer: str, at_us: int) -> None:
        """Note an answer; a turn that only calls tools is none."""
        if self.overview is not None and answer.strip():
            self.overview = replace(self.overview, last_text=_beginning(answer, LONGEST_LAST_TEXT), last_us=at_us)


def _beginning(text: str, longest: int) -> str:
    return escaped(text[:longest])[:longest]


def has_calls(turn: ModelTurn) -> bool:
    """Return whether a turn calls tools."""
    return any(isinstance(part, ToolCallPart) for part in turn.parts)


def text_of(turn: ModelTurn) -> str:
    """Return the text of a turn for the person."""
    return "".join(part.text for part in turn.parts if isinstance(part, TextPart))


def is_fruitless(turn: ModelTurn) -> bool:
    """Return whether a turn neither calls a tool nor answers: it is empty, cut off, or a refusal."""
    if has_calls(turn) or turn.finish_reason == "interrupted":
        return False
    return turn.finish_reason in ("empty", "length", "refusal") or not text_of(turn).strip()


def is_answer(turn: ModelTurn) -> bool:
    """Return whether a turn is a whole answer that calls no tool."""
    return not (has_calls(turn) or turn.finish_reason == "interrupted" or is_fruitless(turn))
