"""Where the lines of a file came from, and how that is known after the file was changed."""

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
    """What a line came from; `exchange` counts the questions of the conversation from 0."""

    kind: Kind
    exchange: int | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """Lines of a file, counted from 1, that came from one source."""

    line: int
    end: int
    source: Source

    def wire(self) -> dict[str, Any]:
        """Return the one JSON form."""
        return {"line": self.line, "end": self.end, "source": self.source.kind, "exchange": self.source.exchange}


def read_spans(wire: Iterable[Mapping[str, Any]], name: str) -> list[Span]:
    """Read spans from their JSON form.

    Raises: Damaged
    """
    try:
        spans = [Span(each["line"], each["end"], Source(each["source"], each["exchange"])) for each in wire]
        is_right = all(
            span.source.kind in _KINDS
            and 1 <= span.line <= span.end
            and (span.source.exchange is None or span.source.exchange >= 0)
            for span in spans
        )
    except (KeyError, TypeError) as error:
        raise Damaged(f"What is kept about the lines of {name} cannot be read.") from error
    if not is_right:
        raise Damaged(f"The stored sources of the lines of {name} are not valid.")
    return spans


def spans_of(sources: Sequence[Source | None]) -> list[Span]:
    """Put the sources of all lines together into spans; a line of no source is in none."""
    spans, line = [], 1
    for source, group in groupby(sources):
        end = line + len(list(group))
        if source is not None:
            spans.append(Span(line, end - 1, source))
        line = end
    return spans


def sources_of(spans: Iterable[Span], lines: int) -> list[Source | None]:
    """Return the source of each line, given their number."""
    sources: list[Source | None] = [None] * lines
    for span in spans:
        for at in range(span.line - 1, min(span.end, lines)):
            sources[at] = span.source
    return sources


def carried(sources: Sequence[Source | None], before: str, after: str) -> list[Source | None]:
    """Return the source of each line of a changed text; a line that was not there before has none."""
    old, new = before.split("\n"), after.split("\n")
    found: list[Source | None] = [None] * len(new)
    for at_old, at_new, size in SequenceMatcher(None, old, new).get_matching_blocks():
        for step in range(size):
            if at_old + step < len(sources):
                found[at_new + step] = sources[at_old + step]
    return found
