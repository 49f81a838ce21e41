"""The transcript of a goal for a model: messages, turns, calls and results in the order of their events."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from typing import TypeVar

from perdure.kernel.events import Entry
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message, a turn of the model, or a summary."""

    seq: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Begun:
    """The intent of a call, question or wait."""

    seq: int
    call: CallState


@dataclass(frozen=True, slots=True)
class Settled:
    """The settlement of a call, question or wait: by an outcome, a decision or a signal."""

    seq: int
    call: CallState


TranscriptEntry = Spoken | Begun | Settled


def transcript(state: GoalState, after: int = 0) -> Sequence[TranscriptEntry]:
    """Return the entries after an event, in time proportional to their number.

    The fold keeps messages, calls and settled calls, each in the order of their events; this function merges the three.
    A pure call has no intent: it begins and ends with the same event.
    """
    entries = _since(reversed(state.conversation.entries), lambda each: each[0], after)
    begun = _since(reversed(state.calls.values()), lambda each: each.seq, after)
    settled = _since((state.calls[each] for each in reversed(state.settled)), _ended_seq, after)
    return list(
        merge(
            [Spoken(seq, each) for seq, each in entries],
            [Begun(call.seq, call) for call in begun],
            [Settled(_ended_seq(call), call) for call in settled],
            key=attrgetter("seq"),
        )
    )


def _ended_seq(call: CallState) -> int:
    return call.ended_seq or call.seq


def _since(newest_first: Iterator[T], seq_of: Callable[[T], int], after: int) -> list[T]:
    """Return the items after an event, oldest first."""
    found: list[T] = []
    for each in newest_first:
        if seq_of(each) <= after:
            break
        found.append(each)
    return found[::-1]
