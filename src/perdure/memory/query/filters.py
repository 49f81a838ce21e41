"""Filters of lists and searches: type, source, repository and time."""

from dataclasses import dataclass
from typing import Any

from perdure.errors import Invalid
from perdure.memory.arguments import word_of
from perdure.memory.log.lines import Line
from perdure.memory.normalise import moment, moment_ms, type_of


@dataclass(frozen=True)
class Filter:
    """A validated filter; empty values match all records. A record without a repository matches every repository."""

    type: str = ""
    source: str = ""
    repo: str = ""
    since_ms: int | None = None
    until_ms: int | None = None

    def matches(self, line: Line) -> bool:
        """Return whether a record matches; one without a timestamp is dated by its arrival."""
        record = line.content or {}
        if self.type and record.get("type") != self.type:
            return False
        if self.source and record.get("source") != self.source:
            return False
        repo = record.get("repo")
        if self.repo and isinstance(repo, str) and repo.strip() not in ("", self.repo):
            return False
        if self.since_ms is None and self.until_ms is None:
            return True
        when = happened_ms(line)
        is_late_enough = self.since_ms is None or (when is not None and when >= self.since_ms)
        return is_late_enough and (self.until_ms is None or (when is not None and when < self.until_ms))


def filter_of(
    *,
    type: Any = None,  # noqa: A002  the key of a record has this name
    source: Any = None,
    repo: Any = None,
    since: Any = None,
    until: Any = None,
) -> Filter:
    """Return a validated filter; `until` is exclusive.

    Raises: Invalid, naming the value.
    """
    return Filter(
        type_of(type), word_of(source, "source"), word_of(repo, "repo"), _ms(since, "since"), _ms(until, "until")
    )


def happened_ms(line: Line) -> int | None:
    """Return the timestamp of a record, else its arrival time; None without both."""
    timestamp = moment_ms((line.content or {}).get("timestamp"))
    return line.arrival_ms if timestamp is None else timestamp


def _ms(value: Any, name: str) -> int | None:
    if value is None:
        return None
    try:
        return moment_ms(moment(value))
    except Invalid:
        raise Invalid(f"{name} is {str(value)[:40]!r}; expected ISO-8601, or seconds since 1970.") from None
