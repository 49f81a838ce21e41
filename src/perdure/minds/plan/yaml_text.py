"""Parses YAML for plans to nodes with line numbers; problems have the form `FILE:LINE: message`.

No aliases, no tags, one document. The reader of a plain scalar decides its type, so that `no` can be text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TypeVar

from yaml.nodes import MappingNode, Node, ScalarNode

from perdure.errors import Invalid
from perdure.text import strict_yaml
from perdure.text.strict_yaml import YamlLimits, refusal

MAX_BYTES = 1024 * 1024
MAX_PROBLEMS = 100

_LIMITS = YamlLimits(deepest=32, most_values=20_000, allows_equal_keys=True)

T = TypeVar("T")


class Wrong(Exception):
    """A node is not valid; caught while the file is read."""

    def __init__(self, node: Node, sentence: str) -> None:
        super().__init__(sentence)
        self.line = line_of(node)


@dataclass(slots=True)
class Problems:
    """The problems of a file."""

    name: str
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, sentence: str) -> None:
        """Add a problem; after a maximum number of problems, parsing stops.

        Raises: Invalid
        """
        self.found.append((line, sentence))
        if len(self.found) >= MAX_PROBLEMS:
            self.refuse()

    def refuse(self) -> None:
        """Raise all problems, in the order of the file.

        Raises: Invalid
        """
        if self.found:
            errors = [f"{self.name}:{line}: {sentence}" for line, sentence in sorted(self.found, key=lambda it: it[0])]
            raise Invalid(errors[0], errors=errors)


class Fields:
    """The keys of one mapping; unknown keys are problems."""

    def __init__(self, node: Node, what: str, known: Sequence[str], problems: Problems) -> None:
        self.node = node
        self.what = what
        self.problems = problems
        self.nodes: dict[str, Node] = {}
        self.is_readable = False
        try:
            given = pairs(node, what)
        except Wrong as wrong:
            problems.add(wrong.line, str(wrong))
            return
        self.is_readable = True
        for key, (key_node, value) in given.items():
            if key in known:
                self.nodes[key] = value
            else:
                meant = did_you_mean(key, known)
                problems.add(line_of(key_node), f"{what} has no key {key!r}{meant} Valid keys: {', '.join(known)}.")

    @property
    def name(self) -> str:
        """The name of the mapping inside a sentence."""
        return self.what[0].lower() + self.what[1:]

    @property
    def line(self) -> int:
        return line_of(self.node)

    def line_of(self, key: str) -> int:
        return line_of(self.nodes.get(key, self.node))

    def read(self, key: str, reader: Callable[[Node], T], default: T) -> T:
        """Return the value of a key; after a problem, add it and return the default."""
        node = self.nodes.get(key)
        if node is None:
            return default
        try:
            return reader(node)
        except Wrong as wrong:
            self.problems.add(wrong.line, f"{key!r} of {self.name}: {wrong}")
            return default

    def require(self, key: str) -> None:
        """Add a problem if a key is missing, unless the whole mapping could not be read."""
        if self.is_readable and key not in self.nodes:
            self.problems.add(self.line, f"{self.what} needs {key!r}.")


def compose(text: str, name: str) -> Node:
    """Read a YAML text into nodes.

    Raises: Invalid when it is not YAML, or YAML that plans do not allow.
    """
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise refusal(name, 1, f"The file is larger than {MAX_BYTES // 1024} KiB.")
    node = strict_yaml.compose(text, name, _LIMITS)
    if node is None:
        raise refusal(name, 1, "The file is empty; a plan has a goal and steps.")
    return node


def line_of(node: Node) -> int:
    """Return the line on which a node begins, from 1."""
    return int(node.start_mark.line) + 1


def pairs(node: Node, what: str) -> Mapping[str, tuple[Node, Node]]:
    """Return the keys of a mapping, each with the nodes of key and value.

    Raises: Wrong
    """
    if not isinstance(node, MappingNode):
        raise Wrong(node, f"{what} must be a mapping (key: value), not {kind_of(node)}.")
    found: dict[str, tuple[Node, Node]] = {}
    for key, value in node.value:
        if not isinstance(key, ScalarNode):
            raise Wrong(key, f"A key must be text, not {kind_of(key)}.")
        if key.value in found:
            raise Wrong(key, f"{what} has the key {key.value!r} twice.")
        found[key.value] = (key, value)
    return found


def kind_of(node: Node) -> str:
    """Describe a node for a message."""
    if isinstance(node, ScalarNode):
        return "nothing" if is_null(node) else f"{node.value[:40]!r}"
    return "a mapping" if isinstance(node, MappingNode) else "a list"


def is_plain(node: Node) -> bool:
    """Return whether a node is a scalar without quotes."""
    return isinstance(node, ScalarNode) and node.style is None


def is_null(node: Node) -> bool:
    """Return whether a node is null."""
    return is_plain(node) and node.value in {"", "~", "null"}


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return the end of a sentence about an unknown word: the nearest known word, or a full stop."""
    near = get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else "."
