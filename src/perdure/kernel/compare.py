"""Where two histories part: what happened is compared, not when, nor under which id."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from perdure.kernel.events import Event
from perdure.kernel.upcasters import upcast

_PASSING = ("duration_ms", "usage", "meta")
"""What differs between two runs of the same step."""

_FAILURE = ("code", "message")
"""What is compared of an error: paths and line numbers of a traceback change with every edit of the code."""


@dataclass(frozen=True)
class Parted:
    """Two histories: how many events they have in common, and what each has after that."""

    common: int
    left: Sequence[Event]
    right: Sequence[Event]


def compare(left: Sequence[Event], right: Sequence[Event]) -> Parted:
    """Find where two histories part; that one of them is a fork is no difference by itself."""
    left, right = _without_forks(left), _without_forks(right)
    same = takewhile(lambda pair: _meaning(pair[0]) == _meaning(pair[1]), zip(left, right, strict=False))
    common = sum(1 for _ in same)
    return Parted(common, left[common:], right[common:])


def _without_forks(events: Sequence[Event]) -> Sequence[Event]:
    return [event for event in events if event.seq == 1 or event.type != "goal"]


def _meaning(event: Event) -> Any:
    content = upcast(event.type, event.v, event.content())
    if event.type == "goal":
        return event.type, content.get("text"), content.get("mind")
    kept = {name: value for name, value in content.items() if name not in _PASSING}
    if isinstance(error := kept.get("error"), dict):
        kept["error"] = [error.get(name) for name in _FAILURE]
    return event.type, kept
