"""Strict YAML: one document, no anchors, aliases or tags, bounded depth and size; problems name the file and the line.

A small text cannot become a large value, and a text cannot create a Python object.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

from perdure.errors import Invalid
from perdure.text.storable import flaw_in, place_of_flaw


@dataclass(frozen=True, slots=True)
class YamlLimits:
    """How large a text may be, and how its scalars and keys are read."""

    deepest: int
    most_values: int
    resolves_scalars: bool = False
    """Whether a plain scalar may be a number, a boolean or a date; otherwise its reader decides, and `no` is text."""
    allows_equal_keys: bool = False
    """Whether the caller rejects duplicate keys, with its own messages."""


def compose(text: str, name: str, limits: YamlLimits, *, first_line: int = 1) -> Node | None:
    """Parse a YAML text into nodes with line numbers; None when it is empty.

    Raises: Invalid as `NAME:LINE: sentence`; lines count from `first_line`.
    """
    _require_storable(text, name, first_line)
    try:
        loader = _SafeLoader(text, limits) if limits.resolves_scalars else _PlainLoader(text, limits)
        node: Node | None = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        sentence = f"The character U+{ord(text[error.position]):04X} is not allowed in YAML."
        raise refusal(name, _line_at(text, error.position, first_line), sentence) from error
    except yaml.MarkedYAMLError as error:
        raise refusal(name, *_problem_of(error, first_line)) from error
    except (ValueError, OverflowError, RecursionError) as error:
        # PyYAML lets these through for an escape or a version beyond all bounds
        raise refusal(name, loader.line + first_line, "This is not valid YAML: a number in it is too big.") from error
    return node


def construct(node: Node, name: str, *, first_line: int = 1) -> Any:
    """Return the value of a node that was composed with resolved scalars.

    Raises: Invalid
    """
    try:
        return yaml.constructor.SafeConstructor().construct_object(node, deep=True)
    except yaml.MarkedYAMLError as error:
        raise refusal(name, *_problem_of(error, first_line)) from error
    except (ValueError, OverflowError, RecursionError) as error:
        line = int(node.start_mark.line) + first_line
        raise refusal(name, line, f"This is not valid YAML: {str(error).splitlines()[0]}.") from error


def refusal(name: str, line: int, sentence: str) -> Invalid:
    """Return the error for a problem after which a file cannot be read further."""
    message = f"{name}:{line}: {sentence}"
    return Invalid(message, errors=[message])


class _StrictComposer(yaml.composer.Composer):
    """Rejects aliases, tags and excess values while composing, so that a large value is never built."""

    limits: YamlLimits
    _depth = 0
    _values = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event: Any = self.peek_event()  # type: ignore[attr-defined]
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _problem(event, "Anchors (&) and aliases (*) are not allowed; write the value out.")
        if event.tag is not None:
            raise _problem(event, f"Tags ({event.tag}) are not allowed; put text in quotes.")
        if self._depth >= self.limits.deepest:
            raise _problem(event, f"This is nested more than {self.limits.deepest} levels deep.")
        if self._values >= self.limits.most_values:
            raise _problem(event, f"The file has more than {self.limits.most_values} values.")
        self._values += 1
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(node, ScalarNode) and (flaw := flaw_in(node.value)):  # only an escape can write these
            raise _problem(node, f"A text contains {flaw}.")
        if isinstance(node, MappingNode) and not self.limits.allows_equal_keys:
            _require_unique(node)
        composed: Node | None = node
        return composed


class _PlainLoader(_StrictComposer, yaml.BaseLoader):
    def __init__(self, text: str, limits: YamlLimits) -> None:
        yaml.BaseLoader.__init__(self, text)
        self.limits = limits


class _SafeLoader(_StrictComposer, yaml.SafeLoader):
    def __init__(self, text: str, limits: YamlLimits) -> None:
        yaml.SafeLoader.__init__(self, text)
        self.limits = limits


def _require_unique(node: MappingNode) -> None:
    seen = set[str]()
    for key in _keys(node):
        if key.value in seen:
            raise _problem(key, f"The key {key.value[:80]!r} is a duplicate.")
        seen.add(key.value)


def _keys(node: MappingNode) -> Iterator[ScalarNode]:
    for key, _ in node.value:
        if not isinstance(key, ScalarNode):
            raise _problem(key, "A key must be text.")
        yield key


def _require_storable(text: str, name: str, first_line: int) -> None:
    flaw = flaw_in(text)
    if flaw is not None:
        sentence = f"The file contains {flaw}." if flaw == "a NUL character" else "The file is not UTF-8."
        raise refusal(name, _line_at(text, place_of_flaw(text), first_line), sentence)


def _line_at(text: str, position: int, first_line: int) -> int:
    return text.count("\n", 0, position) + first_line


def _problem(at: Any, sentence: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=sentence, problem_mark=at.start_mark)


def _problem_of(error: yaml.MarkedYAMLError, first_line: int) -> tuple[int, str]:
    """Return the line of a problem, and the sentence that describes it."""
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "it cannot be read"
    if "'\\t'" in problem:
        sentence = "A tab cannot indent in YAML; use spaces."
    else:
        sentence = problem if problem.endswith(".") else f"This is not valid YAML: {problem}."
    return mark.line + first_line if mark else first_line, sentence
