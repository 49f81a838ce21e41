"""Compares two histories by what happened, ignoring times and ids."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from perdure.kernel.events import (
    Event,
    GoalBegun,
    ModelTurn,
    Termination,
    ToolCall,
    ToolError,
    ToolOutput,
    TranscriptSummary,
    decode,
)

_NO_ARGUMENTS: dict[str, Any] = {"args": [], "kwargs": {}}
"""The arguments of a step that are omitted when they are empty."""


@dataclass(frozen=True)
class Parted:
    """The comparison of two histories: the number of common events, and the events of each after those."""

    common: int
    left: Sequence[Event]
    right: Sequence[Event]


def compare(left: Sequence[Event], right: Sequence[Event]) -> Parted:
    """Find where two histories diverge. A `goal` event of a fork does not count as a difference."""
    left, right = _without_forks(left), _without_forks(right)
    same = takewhile(lambda pair: _meaning(pair[0]) == _meaning(pair[1]), zip(left, right, strict=False))
    common = sum(1 for _ in same)
    return Parted(common, left[common:], right[common:])


def _without_forks(events: Sequence[Event]) -> Sequence[Event]:
    return [event for event in events if event.seq == 1 or event.type != "goal"]


def _meaning(event: Event) -> Any:
    """Return the compared part of an event, the same for every version that wrote it."""
    match body := decode(event):
        case GoalBegun(text=text, mind=mind):
            return event.type, text, mind
        case ToolCall(tool="step", arguments=arguments):
            return event.type, replace(body, arguments={**_NO_ARGUMENTS, **arguments, "digest": None}, returns=None)
        case ToolOutput(error=error):
            return (
                event.type,
                replace(body, duration_ms=0, usage=None, meta=None, error=None, retry_after_s=None),
                _failure(error),
            )
        case ModelTurn() | TranscriptSummary():
            return event.type, _text_of(body)
        case Termination(error=error):
            return event.type, replace(body, error=None), _failure(error)
        case _:
            return event.type, body


def _text_of(body: ModelTurn | TranscriptSummary) -> Any:
    """Return the content of a turn or summary, without usage and provider data."""
    if isinstance(body, TranscriptSummary):
        return body.from_seq, body.to_seq, body.text
    return body.turn, body.model, body.finish_reason, [replace(part, opaque=None) for part in body.parts]


def _failure(error: ToolError | None) -> tuple[str, str] | None:
    """Return the compared part of an error. Tracebacks change with every edit of the code, so they are ignored."""
    return None if error is None else (error.code, error.message)
