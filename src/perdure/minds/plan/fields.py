"""Readers of single values in a plan: each converts a node to a value, or raises Wrong with a message."""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, TypeVar

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from perdure.kernel.events import Effect
from perdure.minds.plan.plan import LEFT_OUT, OUT_PREFIX, Ending, Pause
from perdure.minds.plan.yaml_text import Wrong, is_null, is_plain, kind_of, pairs
from perdure.minds.shell_words import split_words
from perdure.text.durations import (
    duration_s,
    read_duration_s,
    read_timeout_s,
)

MAX_ID = 64

_ID = re.compile(r"[a-z0-9_-]+")
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = {"PERDURE_IDEMPOTENCY_KEY", "PERDURE_STEP_KEY", "PERDURE_GOAL_ID", "PERDURE_HOME_ID", LEFT_OUT}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_EFFECTS: Mapping[str, Effect] = {"pure": "pure", "idempotent": "idempotent", "once": "once"}
_ENDINGS: Mapping[str, Ending] = {"done": "done", "failed": "failed", "skipped": "skipped"}

T = TypeVar("T")


def text(node: Node) -> str:
    """Read a scalar as text: `5`, `true` and `no` are text if text is expected."""
    if not isinstance(node, ScalarNode) or is_null(node):
        raise Wrong(node, f"Expected a string, found {kind_of(node)}.")
    return str(node.value)


def filled_text(node: Node) -> str:
    """Read a text that is not blank."""
    found = text(node)
    if not found.strip():
        raise Wrong(node, "Expected a string that is not empty, found an empty one.")
    return found


def step_id(node: Node) -> str:
    """Read the id of a step."""
    found = text(node)
    if len(found) > MAX_ID or not _ID.fullmatch(found):
        raise Wrong(
            node,
            f"{found[: MAX_ID + 1]!r} is not a valid id: use 1 to {MAX_ID} lower-case letters, digits, '-' or '_'.",
        )
    return found


def texts(node: Node) -> tuple[str, ...]:
    """Read a list of texts."""
    return tuple(text(item) for item in _items(node))


def distinct_texts(node: Node) -> tuple[str, ...]:
    """Read a list of distinct texts."""
    found: dict[str, None] = {}
    for item in _items(node):
        if (word := text(item)) in found:
            raise Wrong(item, f"{word!r} is in this list twice.")
        found[word] = None
    return tuple(found)


def options(node: Node) -> tuple[str, ...]:
    """Read the options of a question."""
    found = distinct_texts(node)
    if not found:
        raise Wrong(node, "A list of options needs at least one; omit it to accept any answer.")
    return found


def effect(node: Node) -> Effect:
    """Read the effect of a step."""
    return _one_of(node, _EFFECTS)


def ending(node: Node) -> Ending:
    """Read the expected end of a step."""
    return _one_of(node, _ENDINGS)


def boolean(node: Node) -> bool:
    """Read `true` or `false`; nothing else is a boolean."""
    if not is_plain(node) or node.value not in {"true", "false"}:
        raise Wrong(node, f"Expected true or false, found {kind_of(node)}.")
    return bool(node.value == "true")


def count(node: Node) -> int:
    """Read a number of repetitions."""
    if not is_plain(node) or not _INTEGER.fullmatch(node.value) or len(node.value) > 4 or int(node.value) < 0:
        raise Wrong(node, f"Expected a whole number from 0 to 9999, found {kind_of(node)}.")
    return int(node.value)


def attempts(node: Node) -> int:
    """Read a number of attempts, including the first."""
    found = count(node)
    if found == 0:
        raise Wrong(node, "Expected at least 1: the first attempt counts too.")
    return found


def number(node: Node) -> float:
    """Read a number, with or without a fraction."""
    found = _plain(node) if is_plain(node) else None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise Wrong(node, f"Expected a number, found {kind_of(node)}.")
    return float(found)


def duration(node: Node) -> float:
    """Read a duration, in seconds."""
    return _seconds(node, read_duration_s)


def timeout(node: Node) -> float:
    """Read a duration that is not zero."""
    return _seconds(node, read_timeout_s)


def _seconds(node: Node, read: Callable[[str], float]) -> float:
    try:
        return read(text(node))
    except ValueError as error:
        raise Wrong(node, str(error)) from None


def pause(node: Node) -> Pause:
    """Read a duration or a moment."""
    found = text(node)
    if duration_s(found) is not None:
        return Pause(seconds=duration(node))
    try:
        moment = datetime.fromisoformat(found)
    except ValueError:
        message = f"Expected a duration such as 10s or a time such as 2030-01-31T08:00:00Z, found {kind_of(node)}."
        raise Wrong(node, message) from None
    if moment.tzinfo is None:
        raise Wrong(node, f"{kind_of(node)} has no time zone; end it with Z or an offset like +02:00.")
    if not _EPOCH.year < moment.year < 9999:
        raise Wrong(node, f"Expected a time between 1971 and 9998, found {kind_of(node)}.")
    return Pause(until_us=(moment - _EPOCH) // timedelta(microseconds=1))


def argv(node: Node, *, is_shell: bool = False) -> tuple[str, ...]:
    """Read a command: a list, or a text that is split like in a shell; with `is_shell`, one text for sh."""
    if is_shell:
        if not isinstance(node, ScalarNode):
            raise Wrong(node, "With shell: true the command is one text, not a list.")
        return (filled_text(node),)
    found = texts(node) if isinstance(node, SequenceNode) else _split(node)
    if not found or not found[0]:
        raise Wrong(node, "A command needs the name of a program.")
    return found


def check(node: Node, *, is_shell: bool = False) -> tuple[str, ...]:
    """Read the command of a check; a text of a step with shell: true is run by sh too."""
    if is_shell and isinstance(node, ScalarNode):
        return ("sh", "-c", filled_text(node))
    return argv(node)


def environment(node: Node) -> dict[str, str]:
    """Read names and values for the environment of a program."""
    found: dict[str, str] = {}
    for name, (key, value) in pairs(node, "env").items():
        if not _ENV_NAME.fullmatch(name):
            raise Wrong(key, f"{name!r} is not a valid name of an environment variable.")
        if name.startswith(OUT_PREFIX) or name in _OURS:
            raise Wrong(key, f"{name!r} is set by Perdure itself; choose another name.")
        found[name] = text(value)
    return found


def inner_folder(node: Node) -> str:
    """Read a folder inside that of the goal; an absolute one is checked when the goal is started."""
    found = filled_text(node)
    if found.startswith("/"):
        return found
    depth = 0
    for part in PurePosixPath(found).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            raise Wrong(node, f"cwd must lie inside the goal's folder, found {found!r}.")
    return found


def json_object(node: Node) -> dict[str, Any]:
    """Read the arguments of a tool."""
    return {key: _json(value) for key, (_, value) in pairs(node, "with").items()}


def _json(node: Node) -> Any:
    if isinstance(node, MappingNode):
        return json_object(node)
    if isinstance(node, SequenceNode):
        return [_json(item) for item in node.value]
    return _plain(node) if is_plain(node) else str(node.value)


def _plain(node: Node) -> str | int | float | bool | None:
    found = str(node.value)
    if is_null(node):
        return None
    if found in {"true", "false"}:
        return found == "true"
    if _INTEGER.fullmatch(found):
        if len(found) > 20 or not -(2**63) <= int(found) < 2**63:
            raise Wrong(node, "A whole number must fit into 64 bits; put it in quotes to keep it as text.")
        return int(found)
    if _FLOAT.fullmatch(found):
        if not math.isfinite(float(found)):
            raise Wrong(node, "This number is too big; put it in quotes to keep it as text.")
        return float(found)
    return found


def _one_of(node: Node, words: Mapping[str, T]) -> T:
    found = text(node)
    if found not in words:
        raise Wrong(node, f"Expected {' or '.join(words)}, found {kind_of(node)}.")
    return words[found]


def _items(node: Node) -> list[Node]:
    if not isinstance(node, SequenceNode):
        raise Wrong(node, f"Expected a list, found {kind_of(node)}.")
    return list(node.value)


def _split(node: Node) -> tuple[str, ...]:
    try:
        return tuple(split_words(filled_text(node), "give the command as a list, or say shell: true"))
    except ValueError as error:
        raise Wrong(node, str(error)) from None
