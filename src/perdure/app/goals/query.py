"""Validates filters of goals and converts them to a query; the same on every surface."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.resources.parameters import GoalFilters, require_names
from perdure.errors import Invalid
from perdure.kernel.ports import GoalFilter
from perdure.statuses import Status, StatusWord
from perdure.text.durations import MAX_SECONDS, duration_s
from perdure.text.storable import is_storable

STATUS_WORDS: tuple[StatusWord, ...] = get_args(StatusWord)
_OPEN = frozenset(("running", "interrupted"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXPECTED_TIME = "a duration such as 2h, a date such as 2026-11-16, or a time such as 2026-11-16T08:00:00Z"
_TAG = re.compile(r'[^"\\\x00-\x1f\x7f]{1,200}')


@dataclass(frozen=True)
class GoalQuery:
    """A query for goals: the filter for the store, and filters that are applied afterwards."""

    where: GoalFilter
    shown: frozenset[str] | None = None
    """The statuses to keep; None keeps all. Running and interrupted goals are both stored as open, so a request for
    only one of them is filtered here."""
    flow_at: str | None = None
    """`module:function` of the flow; a row has only the function, so the goal's first event is read."""

    def has(self, goal: GoalView) -> bool:
        """Return whether a stored goal matches the query."""
        return self.shown is None or goal.status in self.shown


def goal_query(now_us: int, filters: GoalFilters) -> GoalQuery:
    """Return the query for filters; a duration counts back from `now_us`.

    Raises: Invalid; TypeError for an unknown filter.
    """
    require_names(filters, GoalFilters)
    words = _statuses(filters.get("status"))
    stored = None if words is None else tuple(dict.fromkeys(_stored_status(word) for word in words))
    name, flow_at = _flow(filters.get("flow"))
    where = GoalFilter(
        status=stored[0] if stored is not None and len(stored) == 1 else stored,
        queue=_text("queue", filters.get("queue")),
        flow=name,
        start_key=_text("key", filters.get("key")),
        bot=_text("bot", filters.get("bot")),
        tag=_tag(filters.get("tag")),
        parent=_text("parent", filters.get("parent")),
        created_after_us=_moment_us("since", filters.get("since"), now_us),
        created_before_us=_moment_us("until", filters.get("until"), now_us),
    )
    is_split = words is not None and "open" not in words and len(_OPEN & set(words)) == 1
    return GoalQuery(where, frozenset(words) if words is not None and is_split else None, flow_at)


def older_than_us(text: str, now_us: int, name: str = "older_than") -> int:
    """Return the moment before which something is older than a duration such as 30d.

    Raises: Invalid
    """
    seconds = duration_s(text)
    if seconds is None or not 0 < seconds <= MAX_SECONDS:
        raise Invalid(f"{name} must be a duration such as 12h or 30d, found {text[:60]!r}.")
    return max(now_us - int(seconds * 1_000_000), 0)


def _statuses(value: Any) -> list[str] | None:
    """Return the requested statuses; None for all."""
    if value is None:
        return None
    words = [value] if isinstance(value, str) else value
    is_list = isinstance(words, Sequence) and bool(words)
    wrong = next((word for word in words if word not in STATUS_WORDS), None) if is_list else value
    if not is_list or wrong is not None:
        allowed = ", ".join(STATUS_WORDS)
        raise Invalid(
            f"status must be one of {allowed} (`open` means running or interrupted), or several; found {wrong!r}."
        )
    return list(dict.fromkeys(words))


def _stored_status(word: str) -> Status:
    found: Status = "open" if word in _OPEN else word  # type: ignore[assignment]  # one of STATUS_WORDS
    return found


def _text(name: str, value: Any) -> str | None:
    if value is not None and not (isinstance(value, str) and value.strip() and is_storable(value)):
        raise Invalid(f"{name} must be a string that is not empty, without NUL and lone surrogates; found {value!r}.")
    text: str | None = value
    return text


def _flow(value: Any) -> tuple[str | None, str | None]:
    """Return the name of a flow, and `module:function` if the filter has a module."""
    text = _text("flow", value)
    if text is None or ":" not in text:
        return text, None
    module, _, name = text.partition(":")
    if not module or not name:
        raise Invalid(f"flow must be the name of a flow, or module:function; found {text!r}.")
    return name, text


def _tag(value: Any) -> str | None:
    tag = _text("tag", value)
    if tag is not None and not _TAG.fullmatch(tag):
        raise Invalid(f"tag must have 1 to 200 characters without quotes, backslashes and line ends, found {tag!r}.")
    return tag


def _moment_us(name: str, value: Any, now_us: int) -> int | None:
    """Return a moment in microseconds since 1970; without an offset, a time is local."""
    if value is None:
        return None
    found = value if isinstance(value, datetime) else None
    if isinstance(value, str):
        found = _parse_time(value, now_us)
    if found is None:
        raise Invalid(f"{name} must be {_EXPECTED_TIME}; found {value!r}.")
    try:
        moment_us = (found.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    except (OverflowError, ValueError, OSError):
        moment_us = -1
    if moment_us < 0:
        raise Invalid(f"{name} must be a time from 1970 to 9998, found {value!r}.")
    return moment_us


def _parse_time(text: str, now_us: int) -> datetime | None:
    seconds = duration_s(text.strip())
    if seconds is not None:
        return _EPOCH + timedelta(microseconds=max(now_us - int(seconds * 1_000_000), 0))
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None
