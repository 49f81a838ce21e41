"""Reads the `retry` of a step in a plan: with the keys of a flow, and the former keys of stored plans."""

from collections.abc import Callable, Mapping
from typing import Any

from yaml.nodes import MappingNode, Node, SequenceNode

from perdure.errors import Invalid
from perdure.minds.plan import fields as read
from perdure.minds.plan.yaml_text import Fields, Wrong, line_of
from perdure.minds.retry import KEYS, NO_RETRY, Retry

_FORMER_KEYS = {
    "times": "Use 'attempts', which counts the first attempt too: 'times: 3' is 'attempts: 4'.",
    "wait": "Use 'initial'; 'factor: 1' keeps all waits as long as the first.",
}


def _kinds(node: Node) -> tuple[str, ...]:
    return read.distinct_texts(node) if isinstance(node, SequenceNode) else (read.filled_text(node),)


_READERS: Mapping[str, Callable[[Node], Any]] = {
    "attempts": read.attempts,
    **dict.fromkeys(("initial", "maximum", "deadline"), read.duration),
    **dict.fromkeys(("factor", "jitter"), read.number),
    **dict.fromkeys(("retry_on", "give_up_on"), _kinds),
}


def read_retry(node: Node, of: Fields, *, is_stored: bool) -> Retry:
    """Read the retry policy of a step. A stored plan may have the former keys `times` and `wait`.

    Raises: Wrong; other problems are added to those of the step.
    """
    what, problems = f"'retry' of {of.name}", of.problems
    former = [key for key, _ in node.value if key.value in _FORMER_KEYS] if isinstance(node, MappingNode) else []
    if former and is_stored:
        return _former_retry(Fields(node, what, tuple(_FORMER_KEYS), problems))
    for key in former:
        problems.add(line_of(key), f"{what} has no key {key.value!r}. {_FORMER_KEYS[key.value]}")
    if former:
        return NO_RETRY
    fields = Fields(node, what, KEYS, problems)
    fields.require("attempts")
    readings = ((key, fields.read(key, reader, None)) for key, reader in _READERS.items())
    given = {key: value for key, value in readings if value is not None}
    try:
        return Retry(**{"attempts": 1, **given})
    except Invalid as error:
        raise Wrong(node, error.detail) from None


def _former_retry(fields: Fields) -> Retry:
    wait_s = fields.read("wait", read.duration, 0.0)
    return Retry(fields.read("times", read.count, 0) + 1, initial=wait_s, factor=1)
