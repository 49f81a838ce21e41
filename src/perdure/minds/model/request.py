"""Builds the messages of a request from the transcript of a goal."""

from collections.abc import Iterator, Sequence

from perdure.kernel.conversation.conversation import is_fruitless
from perdure.kernel.conversation.messages import Message, ModelTurn, TranscriptSummary
from perdure.kernel.conversation.parts import ToolCallPart
from perdure.kernel.events import Entry
from perdure.kernel.fold import GoalState
from perdure.minds.model.ports import ModelMessage, ModelParts, UserText
from perdure.minds.model.results import is_voided, result_of

_CORRECTIONS = {
    "length": "Your answer was cut off because it was too long, and nothing of it was used. Answer again, shorter.",
    "refusal": "You refused. If you cannot do this, say in a sentence why; else answer.",
}
_EMPTY = "Your answer was empty. Answer in text, or call a tool."
_CONTINUE = "Your answer was interrupted. Continue."


def messages_of(state: GoalState, after: int = 0) -> list[ModelMessage]:
    """Return the messages of a request; with `after`, only those after an event."""
    messages: list[ModelMessage] = [] if after or state.begun.mind.chat else [UserText(state.begun.text)]
    for seq, entry in visible(state):
        if seq > after:
            messages += sent(state, entry)
    last = state.conversation.last
    is_cut = isinstance(last, ModelTurn) and last.finish_reason == "interrupted"
    if is_cut and messages and isinstance(messages[-1], ModelParts):
        messages.append(UserText(_CONTINUE))
    return messages


def visible(state: GoalState) -> Iterator[tuple[int, Entry]]:
    """Yield the conversation with the last summary instead of the events that it summarises."""
    entries = state.conversation.entries
    summaries = [each for _, each in entries if isinstance(each, TranscriptSummary)]
    if not summaries:
        yield from entries
        return
    last = summaries[-1]
    is_yielded = False
    for seq, each in entries:
        if isinstance(each, TranscriptSummary):
            continue
        if seq >= last.from_seq and not is_yielded:
            yield last.from_seq, last
            is_yielded = True
        if not last.from_seq <= seq <= last.to_seq:
            yield seq, each


def sent(state: GoalState, entry: Entry) -> Sequence[ModelMessage]:
    """Return the messages for a message, a turn with its results, or a summary."""
    match entry:
        case Message(role="user", text=text):
            return [UserText(text)]
        case Message(text=text):
            return [UserText(f"Related records of your memory, quoted as data:\n{text}")]
        case TranscriptSummary(text=text):
            return [UserText(f"Summary of the conversation until here:\n{text}")]
        case ModelTurn():
            return _sent_turn(state, entry)


def _sent_turn(state: GoalState, turn: ModelTurn) -> list[ModelMessage]:
    """Return a turn with the results of its calls; without it if it was voided or is empty."""
    if is_voided(state, turn):
        return []
    sent: list[ModelMessage] = [ModelParts(turn.parts)] if turn.parts else []
    sent += [result_of(state, part) for part in turn.parts if isinstance(part, ToolCallPart)]
    if is_fruitless(turn):
        sent.append(UserText(_CORRECTIONS.get(turn.finish_reason, _EMPTY)))
    return sent


def bytes_of(messages: Sequence[ModelMessage]) -> int:
    """Return the estimated size of messages in bytes."""
    return sum(_bytes(each) for each in messages)


def _bytes(message: ModelMessage) -> int:
    match message:
        case UserText(text=text):
            return len(text.encode())
        case ModelParts(parts=parts):
            return sum(len(str(part)) for part in parts)
        case _:
            return len(message.content.encode())
