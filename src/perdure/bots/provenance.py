"""Provenance: the source of each line of a file, also after the file was edited."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any, Literal, get_args

from perdure.errors import Damaged

Kind = Literal["answer", "default", "suggestion", "description"]
_KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a line; `exchange` is the index of the question in the conversation, from 0."""

    kind: Kind
    exchange: int | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A range of lines, counted from 1, with the same source."""

    line: int
    end: int
    source: Source

    def wire(self) -> dict[str, Any]:
        """Return this as JSON."""
        return {"line": self.line, "end": self.end, "source": self.source.kind, "exchange": self.source.exchange}


def read_spans(wire: Iterable[Mapping[str, Any]], name: str) -> list[Span]:
    """Read spans from their JSON form.

    Raises: Damaged
    """
    try:
        spans = [Span(each["line"], each["end"], Source(each["source"], each["exchange"])) for each in wire]
        is_valid = all(
            span.source.kind in _KINDS
            and 1 <= span.line <= span.end
            and (span.source.exchange is None or span.source.exchange >= 0)
            for span in spans
        )
    except (KeyError, TypeError) as error:
        raise Damaged(f"The stored sources of the lines of {name} cannot be read.") from error
    if not is_valid:
        raise Damaged(f"The stored sources of the lines of {name} are not valid.")
    return spans


def spans_of(sources: Sequence[Source | None]) -> list[Span]:
    """Group the sources of all lines into spans; lines without a source are in none."""
    spans, line = [], 1
    for source, group in groupby(sources):
        end = line + len(list(group))
        if source is not None:
            spans.append(Span(line, end - 1, source))
        line = end
    return spans


def sources_of_spans(spans: Iterable[Span], lines: int) -> list[Source | None]:
    """Return the source of each line; `lines` is their number."""
    sources: list[Source | None] = [None] * lines
    for span in spans:
        for at in range(span.line - 1, min(span.end, lines)):
            sources[at] = span.source
    return sources


def carry_sources(sources: Sequence[Source | None], before: str, after: str) -> list[Source | None]:
    """Return the source of each line of a changed text; a new line does not have one."""
    old, new = before.split("\n"), after.split("\n")
    carried: list[Source | None] = [None] * len(new)
    for at_old, at_new, size in SequenceMatcher(None, old, new).get_matching_blocks():
        for step in range(size):
            if at_old + step < len(sources):
                carried[at_new + step] = sources[at_old + step]
    return carried
