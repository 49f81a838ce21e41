"""What was said and done in a goal, in the order of its events: what a model is told of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from typing import TypeVar

from perdure.kernel.events import Said
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message, a turn of the model, or a summary."""

    seq: int
    said: Said


@dataclass(frozen=True, slots=True)
class Begun:
    """A call, question or wait, when its intent was recorded."""

    seq: int
    call: CallState


@dataclass(frozen=True, slots=True)
class Settled:
    """The same when it was settled: by an outcome, a decision or a signal."""

    seq: int
    call: CallState


Entry = Spoken | Begun | Settled


def transcript(state: GoalState, after: int = 0) -> Sequence[Entry]:
    """Return what came after an event. It costs what it returns, not what the history has.

    The fold keeps what was said, calls and settled calls each in the order of their events; here they are merged. A
    pure call has no intent: its beginning and its end are the same event.
    """
    said = _since(reversed(state.conversation.said), lambda each: each[0], after)
    begun = _since(reversed(state.calls.values()), lambda each: each.seq, after)
    settled = _since((state.calls[each] for each in reversed(state.settled)), _ended_seq, after)
    return list(
        merge(
            [Spoken(seq, each) for seq, each in said],
            [Begun(call.seq, call) for call in begun],
            [Settled(_ended_seq(call), call) for call in settled],
            key=attrgetter("seq"),
        )
    )


def _ended_seq(call: CallState) -> int:
    return call.ended_seq or call.seq


def _since(newest_first: Iterator[T], seq_of: Callable[[T], int], after: int) -> list[T]:
    """Return the last items of an ordered sequence, those after an event, in its order."""
    found: list[T] = []
    for each in newest_first:
        if seq_of(each) <= after:
            break
        found.append(each)
    return found[::-1]
