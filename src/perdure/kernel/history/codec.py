"""The bodies of events as payloads and back: what follows from another field is left out, and restored when read."""

from collections.abc import Iterable, Mapping
from typing import Any

from perdure.kernel.history.payloads import Content, Layout

_CHILD = "child"
"""The tool of calls that start a child and name it in their arguments."""


class Codec:
    """Writes and reads the bodies of all events; actions are the events of type `action`, told apart by `kind`."""

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
        """Return the type and the payload of a body, without what is null, a default or said by another field."""
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
        """Return the body that was written as a payload; the payload is used up.

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
        """Return what this version does not know of a payload that it cannot read; None when it knows all of it."""
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
        """Tell whether two payloads of one type say the same, whichever of their defaults are left out."""
        return self._events[event_type].is_same(left, right)


def leave_out_step(content: Content) -> None:
    """Leave out the step of a call, and which attempt it is, where the id of the call says both: `<step>.<attempt>`."""
    step, _, attempt = content["call_id"].rpartition(".")
    if step == content["step"] and content.get("attempt", 1) == _number(attempt):
        del content["step"]
        content.pop("attempt", None)


def leave_out_pure(content: Content) -> None:
    """Leave out step and effect of a pure step of a flow, where its digest says that it is one and its id which.

    The outcome of a call that has an intent says nothing about the call.
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
    """Leave out the child of a call of the tool `child`, whose arguments name it."""
    if "child" in content and content.get("tool") == _CHILD and content["arguments"].get("goal_id") == content["child"]:
        del content["child"]


def restore_child(content: Content) -> None:
    """Restore what `leave_out_child` has left out."""
    if content.get("tool") == _CHILD and "child" not in content:
        content["child"] = content["arguments"].get("goal_id")


def restore_step(content: Content, *, has_attempt: bool) -> None:
    """Restore what `leave_out_step` has left out.

    Raises: KeyError, ValueError when it was not left out, but is missing.
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
