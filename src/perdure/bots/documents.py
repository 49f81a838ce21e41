"""Texts with front matter: YAML between two lines of `---`, then Markdown.

Values are read and written by the YAML library, never by formatting strings. Aliases, tags and duplicate keys are
rejected and sizes are bounded, so that a small text cannot become a large value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.nodes import MappingNode

from perdure.errors import Invalid
from perdure.text.storable import flaw_in, place_of_flaw
from perdure.text.strict_yaml import YamlLimits, compose, construct, refusal

MAX_BYTES = 1 << 20
MAX_LINES = 20_000
MAX_FRONT_BYTES = 64 << 10
FENCE = "---"
_FRONT_LINE = 2
_LIMITS = YamlLimits(deepest=8, most_values=2_000, resolves_scalars=True)


@dataclass(frozen=True, slots=True)
class Document:
    """The parts of a text with front matter."""

    front: Mapping[str, Any]
    body: str
    lines: Mapping[str, tuple[int, int]]
    """The first and the last line of each key, counted from 1 in the whole text."""


def decode_text(data: bytes, name: str) -> str:
    """Decode the text of a file; drop a byte-order mark and convert line ends to line feeds.

    Raises: Invalid, naming the file, when it is not text or too large.
    """
    if len(data) > MAX_BYTES:
        raise Invalid(f"{name} is larger than {MAX_BYTES >> 10} KiB.")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise Invalid(f"{name} is not UTF-8: byte {error.start} cannot be read.") from error
    return require_text(text, name)


def require_text(text: str, name: str) -> str:
    """Return a text that can be stored in a file.

    Raises: Invalid
    """
    if flaw := flaw_in(text):
        line = text.count("\n", 0, place_of_flaw(text)) + 1
        raise Invalid(f"{name}:{line}: The file contains {flaw}.")
    if text.count("\n") > MAX_LINES:
        raise Invalid(f"{name} has more than {MAX_LINES:,} lines.")
    if len(text.encode()) > MAX_BYTES:
        raise Invalid(f"{name} is larger than {MAX_BYTES >> 10} KiB.")
    return text


def read_document(text: str, name: str) -> Document:
    """Parse a text with front matter.

    Raises: Invalid, naming the file and where possible the line.
    """
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() == FENCE), None)
    if lines[0].rstrip() != FENCE or end is None:
        raise Invalid(f"{name}:1: Expected front matter: keys and values between two lines of {FENCE}.")
    front, spans = _read_front("\n".join(lines[1:end]) + "\n", name)
    return Document(front, "\n".join(lines[end + 1 :]), _key_ranges(spans, lines, end))


def write_document(front: Mapping[str, Any], body: str) -> str:
    """Return a text with front matter."""
    return f"{FENCE}\n{dump_yaml(front)}{FENCE}\n{body}"


def dump_yaml(front: Mapping[str, Any]) -> str:
    """Return values as YAML, with one or more lines for each key."""
    return yaml.safe_dump(
        dict(front), allow_unicode=True, default_flow_style=False, sort_keys=False, width=float("inf")
    )


def _read_front(text: str, name: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the values, and the line on which each key begins."""
    if len(text.encode()) > MAX_FRONT_BYTES:
        raise Invalid(f"{name}: The front matter is larger than {MAX_FRONT_BYTES >> 10} KiB.")
    root = compose(text, name, _LIMITS, first_line=_FRONT_LINE)
    if not isinstance(root, MappingNode):
        raise refusal(name, _FRONT_LINE, "The front matter must be keys and values (key: value).")
    values = {key.value: construct(value, name, first_line=_FRONT_LINE) for key, value in root.value}
    return values, {key.value: key.start_mark.line + _FRONT_LINE for key, _ in root.value}


def _key_ranges(starts: Mapping[str, int], lines: list[str], end: int) -> dict[str, tuple[int, int]]:
    """Return the first and last line of each key; comments before the next key belong to that one."""
    order = [*starts.values(), end + 1]
    spans = {}
    for (key, start), after in zip(starts.items(), order[1:], strict=True):
        last = after - 1
        while last > start and lines[last - 1].strip()[:1] in ("", "#"):
            last -= 1
        spans[key] = (start, last)
    return spans
