"""Where a conversation stands, as its events tell it; the fold keeps one for each goal."""

from dataclasses import dataclass, field

from perdure.kernel.conversation.messages import Message, ModelFailure, ModelTurn, Prompt, Said
from perdure.kernel.conversation.parts import TextPart, ToolCallPart

MOST_FRUITLESS = 3
"""After this many answers in a row that say and do nothing, the model is not asked again."""


@dataclass(slots=True)
class Conversation:
    """What was said in a goal, in the order of its events; changed by the fold alone."""

    said: list[tuple[int, Said]] = field(default_factory=list)
    """Messages, turns and summaries, each with its event. See kernel.deciding.transcript."""
    prompt: Prompt | None = None
    """What requests begin with; None before the first."""
    last: Message | ModelTurn | None = None
    """The last message of a person, or turn of the model."""
    turns: int = 0
    """The number of the last turn."""
    message_seq: int = 0
    """The last message of a person. Guards and the limit of iterations count from it."""
    fruitless: int = 0
    """How many turns in a row, since then, say and do nothing."""
    failure: ModelFailure | None = None
    failure_seq: int = 0
    """The event of the last failure of a model."""

    @property
    def is_answered(self) -> bool:
        """Whether the last turn is a whole answer that calls no tool."""
        return isinstance(self.last, ModelTurn) and is_answer(self.last)

    @property
    def awaits_message(self) -> bool:
        """Whether, in a chat, the next thing is a message of a person, once nothing is open."""
        if not isinstance(self.last, ModelTurn):
            return self.last is None
        is_given_up = self.fruitless >= MOST_FRUITLESS
        return self.is_answered or self.last.finish_reason == "interrupted" or is_given_up

    def take(self, body: Said | Prompt | ModelFailure, seq: int) -> None:
        """Take in what is said, what the model is shown, or that it does not answer."""
        if isinstance(body, Prompt):
            self.prompt = body
            return
        if isinstance(body, ModelFailure):
            self.failure, self.failure_seq = body, seq
            return
        self.said.append((seq, body))
        match body:
            case Message(role="user"):
                self.last, self.message_seq, self.fruitless = body, seq, 0
            case ModelTurn():
                self.last, self.turns = body, body.turn
                self.fruitless = self.fruitless + 1 if is_fruitless(body) else 0
            case _:
                pass


def has_calls(turn: ModelTurn) -> bool:
    """Tell whether a turn calls tools."""
    return any(isinstance(part, ToolCallPart) for part in turn.parts)


def text_of(turn: ModelTurn) -> str:
    """Return what a turn says to the person."""
    return "".join(part.text for part in turn.parts if isinstance(part, TextPart))


def is_fruitless(turn: ModelTurn) -> bool:
    """Tell whether a turn neither calls a tool nor answers: it is empty, cut off, or a refusal."""
    if has_calls(turn) or turn.finish_reason == "interrupted":
        return False
    return turn.finish_reason in ("empty", "length", "refusal") or not text_of(turn).strip()


def is_answer(turn: ModelTurn) -> bool:
    """Tell whether a turn is a whole answer that calls no tool."""
    return not (has_calls(turn) or turn.finish_reason == "interrupted" or is_fruitless(turn))
