"""Converts the bodies of events to payloads and back; omits fields that follow from other fields."""

from collections.abc import Iterable, Mapping
from typing import Any

from perdure.kernel.history.payloads import Content, Layout

_CHILD = "child"
"""The tool of calls that start a child and name it in their arguments."""


class Codec:
    """Writes and reads the bodies of all events; events of type `action` have a `kind`."""

    def __init__(
        self,
        actions: Mapping[str, type],
        events: Mapping[str, type],
        *,
        nested: Mapping[type, Mapping[str, Any]],
        quick: Iterable[type],
    ) -> None:
        layouts: dict[type, Layout[Any]] = {
            kind: Layout(kind, **nested.get(kind, {})) for kind in (*actions.values(), *events.values())
        }
        for kind in quick:
            layouts[kind].be_quick()
        self._layouts = layouts
        self._kinds = {kind: name for name, kind in actions.items()}
        self._types = {kind: name for name, kind in events.items()}
        self._actions = {name: layouts[kind] for name, kind in actions.items()}
        self._events = {name: layouts[kind] for name, kind in events.items()}

    def write(self, body: Any) -> tuple[str, Content]:
        """Return the type and the payload of a body, without defaults and fields that follow from others."""
        content = self._layouts[type(body)].write(body)
        kind = self._kinds.get(type(body))
        if kind is None:
            name = self._types[type(body)]
            if name == "tool_output":
                leave_out_pure(content)
            return name, content
        leave_out_step(content)
        leave_out_child(content)
        return "action", {"kind": kind, **content}

    def read(self, event_type: str, content: Content) -> Any:
        """Return the body of a payload; the payload is consumed.

        Raises: KeyError, TypeError, ValueError, AttributeError when it is not a payload of that type.
        """
        if event_type == "action":
            kind = content.pop("kind")
            restore_step(content, has_attempt=kind == "tool_call")
            restore_child(content)
            return self._actions[kind].read(content)
        if event_type == "tool_output" and "digest" in content and "step" not in content:
            restore_step(content, has_attempt=False)
            content["effect"] = "pure"
        return self._events[event_type].read(content)

    def unknown_part(self, event_type: str, content: Content) -> str | None:
        """Return the type, kind or field of a payload that this version does not know; None if it knows all."""
        layout = self._events.get(event_type)
        if event_type == "action":
            kind = content.pop("kind", None)
            layout = self._actions.get(kind) if isinstance(kind, str) else None
            if layout is None:
                return f"action {kind!r}" if isinstance(kind, str) else None
        if layout is None:
            return f"type {event_type!r}"
        name = layout.unknown_field(content)
        return None if name is None else f"field {name!r}"

    def is_same(self, event_type: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
        """Return whether two payloads of one type are equal, where a missing field equals its default."""
        return self._events[event_type].is_same(left, right)


def leave_out_step(content: Content) -> None:
    """Omit step and attempt of a call whose id contains both: `<step>.<attempt>`."""
    step, _, attempt = content["call_id"].rpartition(".")
    if step == content["step"] and content.get("attempt", 1) == _number(attempt):
        del content["step"]
        content.pop("attempt", None)


def leave_out_pure(content: Content) -> None:
    """Omit step and effect of a pure step of a flow: the digest implies the effect, and the id contains the step.

    The outcome of a call with an intent has no fields that describe the call.
    """
    if "step" not in content:
        for name in ("digest", "effect", "tool"):
            content.pop(name, None)
        return
    if "digest" not in content or content.get("effect") != "pure":
        return
    leave_out_step(content)
    if "step" not in content:
        del content["effect"]


def leave_out_child(content: Content) -> None:
    """Omit the child of a call of the tool `child`, because its arguments contain the id."""
    if "child" in content and content.get("tool") == _CHILD and content["arguments"].get("goal_id") == content["child"]:
        del content["child"]


def restore_child(content: Content) -> None:
    """Restore the field that `leave_out_child` omits."""
    if content.get("tool") == _CHILD and "child" not in content:
        content["child"] = content["arguments"].get("goal_id")


def restore_step(content: Content, *, has_attempt: bool) -> None:
    """Restore the fields that `leave_out_step` omits.

    Raises: KeyError, ValueError when the id does not contain them.
    """
    if "step" not in content:
        content["step"], dot, attempt = content["call_id"].rpartition(".")
        if not dot:
            raise KeyError("step")
        if has_attempt and attempt != "1":
            content["attempt"] = int(attempt)


def _number(text: str) -> int | None:
    """Read a number as this package writes it: digits without a leading zero."""
    is_plain = text.isascii() and text.isdecimal() and (text == "0" or not text.startswith("0"))
    return int(text) if is_plain else None
