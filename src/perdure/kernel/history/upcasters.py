"""Converts the payloads of older event versions to the current one; stored events are never rewritten."""

from collections.abc import Callable
from typing import Any

Content = dict[str, Any]


def upcast(event_type: str, version: int, content: Content) -> Content:
    """Return the payload of an event as the current version would have written it."""
    for number in range(version, len(_UPCASTERS) + 1):
        content = _UPCASTERS[number](event_type, content)
    return content


def _from_1(event_type: str, content: Content) -> Content:
    """Convert a payload of version 1, with `parent` for `forked_from`, and the import path of a flow as its name."""
    match event_type:
        case "goal":
            return {
                **content,
                "mind": _mind_from_1(content["mind"]),
                "forked_from": content.get("parent"),
                "parent": None,
            }
        case "termination":
            return {**content, "steps": None}
        case _:
            return content


def _mind_from_1(mind: Content) -> Content:
    at = mind.get("flow")
    return mind if at is None else {**mind, "flow": at.partition(":")[2] or at, "at": at}


def _from_2(event_type: str, content: Content) -> Content:  # noqa: ARG001 (as all of them)
    """Return a payload of version 2 unchanged: it differs from version 3 only in the timers that it lacks."""
    return content


_UPCASTERS: dict[int, Callable[[str, Content], Content]] = {1: _from_1, 2: _from_2}
