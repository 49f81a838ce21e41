"""Converts rows of goals, events and inboxes to values and back, and builds the queries of lists."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import orjson

from perdure.errors import Damaged, Invalid
from perdure.kernel.events import make_event
from perdure.kernel.ports import Event, ForkedFrom, GoalFilter, InboxRow, Overview, ParentCall, Summary
from perdure.store.goals.append import Append
from perdure.store.raw import Values

_ALL = "goal_no > 0"
"""Always true; makes SQLite read goals in the order of their numbers instead of sorting."""
_BEFORE = "goal_no < (SELECT goal_no FROM goals WHERE id = ?)"
_SUMMARY = (
    "SELECT id, text, mind, status, created_at, updated_at, last_seq, steps, cost_usd, reason, detail, waiting_for,"
    " bot, flow, workdir, forked_from_id, forked_from_seq, parent_id, parent_call_id, tags, queue, worker, due_at,"
    " start_key, deaths, title, messages, last_text, last_at FROM goals WHERE deleted_at IS NULL"
)
_NO_KEY = (None,)
_ORIGIN_AT = [field.name for field in fields(Summary)].index("forked_from")
POSTED = "SELECT id FROM goals WHERE worker = ? AND inbox_count > 0 ORDER BY goal_no"
BY_KEY = (
    "SELECT kind, payload, CAST(NULL AS BIGINT) FROM inbox WHERE goal_no = ? AND key = ?"
    " UNION ALL SELECT type, payload, seq FROM events WHERE goal_no = ? AND key = ?"
)
BY_START_KEY = f"{_SUMMARY} AND start_key = ?"
BY_ID = f"{_SUMMARY} AND id = ?"
DELETED = "SELECT id FROM goals WHERE deleted_at IS NOT NULL AND substr(id, 1, ?) = ? LIMIT 2"
BY_PREFIX = f"{_SUMMARY} AND substr(id, 1, ?) = ? ORDER BY length(id), goal_no DESC LIMIT 2"


_FILTERS = {
    "queue": "queue = ?",
    "worker": "worker = ?",
    "flow": "flow = ?",
    "start_key": "start_key = ?",
    "forked_from": "forked_from_id = ?",
    "parent": "parent_id = ?",
    "bot": "bot = ?",
    "created_after_us": "created_at >= ?",
    "created_before_us": "created_at < ?",
    "updated_before_us": "updated_at < ?",
}


def listing(where: GoalFilter, has_tag: str, before: str | None, limit: int) -> tuple[str, Values]:
    """Return the query of a list, newest first; `has_tag` is the condition that the column of tags contains a text.

    A tag has only characters that JSON does not escape. So the column contains the quoted tag if and only if the goal
    has the tag.
    """
    conditions: dict[str, Values] = {_ALL: ()} if before is None else {_BEFORE: (before,)}
    if where.statuses is not None:
        conditions[_one_of("status", len(where.statuses))] = where.statuses
    for name, condition in _FILTERS.items():
        if (value := getattr(where, name)) is not None:
            conditions[condition] = (value,)
    if where.tag is not None:
        conditions[has_tag] = (f'"{where.tag}"',)
    values = [value for given in conditions.values() for value in given]
    return f"{_SUMMARY} AND {' AND '.join(conditions)} ORDER BY goal_no DESC LIMIT ?", (*values, limit)


def _one_of(column: str, count: int) -> str:
    """Return the condition that a column has one of `count` values; it is false for none."""
    if count == 1:
        return f"{column} = ?"
    return f"{column} IN ({', '.join('?' * count)})" if count else "1 = 0"


QUEUED = "SELECT count(*) FROM goals WHERE deleted_at IS NULL AND status = 'open' AND queue = ? AND worker IS NULL"


def due_listing(now_us: int, queue: str | None, after: Summary | None, limit: int) -> tuple[str, Values]:
    """Return the query of goals that are due, the longest first, after a goal that need not be due any more."""
    conditions: dict[str, Values] = {"due_at <= ?": (now_us,)}
    if queue is not None:
        conditions["queue = ?"] = (queue,)
    if after is not None:
        place = "(due_at, goal_no) > (?, (SELECT goal_no FROM goals WHERE id = ?))"
        conditions[place] = (after.due_us, after.goal_id)
    values = [value for given in conditions.values() for value in given]
    return f"{_SUMMARY} AND {' AND '.join(conditions)} ORDER BY due_at, goal_no LIMIT ?", (*values, limit)


def conversation_listing(bot: str | None, after: tuple[int, str] | None, limit: int) -> tuple[str, Values]:
    """Return the query of the conversations with a bot, the last used first; None means the assistant.

    The order names the bot too: PostgreSQL does not see that it is one for `bot IS NULL`, and would sort.
    """
    of_bot: dict[str, Values] = {"bot IS NULL": ()} if bot is None else {"bot = ?": (bot,)}
    conditions: dict[str, Values] = {"messages IS NOT NULL": (), **of_bot}
    if after is not None:
        conditions["(last_at, goal_no) < (?, (SELECT goal_no FROM goals WHERE id = ?))"] = after
    values = [value for given in conditions.values() for value in given]
    return f"{_SUMMARY} AND {' AND '.join(conditions)} ORDER BY bot DESC, last_at DESC, goal_no DESC LIMIT ?", (
        *values,
        limit,
    )


def summary_of(row: Sequence[Any]) -> Summary:
    """Return the summary of a row."""
    origin_id, origin_seq, parent_id, parent_call_id, tags, *rest = row[_ORIGIN_AT:]
    origin = None if origin_id is None else ForkedFrom(origin_id, origin_seq)
    parent = None if parent_id is None else ParentCall(parent_id, parent_call_id)
    *rest, title, messages, last_text, last_us = rest
    overview = None if messages is None else Overview(title, messages, last_text, last_us)
    names = tuple(orjson.loads(tags)) if tags != "[]" else ()
    values: Sequence[Any] = (*row[:_ORIGIN_AT], origin, parent, names, *rest, overview)
    return Summary(*values)


def event_values(append: Append, goal_no: int) -> list[Values]:
    """Return the rows of the events of an append; the last has its key.

    Raises: Invalid
    """
    key, last = append.key, append.seq
    return [
        (goal_no, e.seq, id_bytes(e), e.type, e.v, e.iteration, e.timestamp_us, e.payload, e.hash)
        + ((key,) if e.seq == last else _NO_KEY)
        for e in append.events
    ]


def id_bytes(event: Event) -> bytes:
    """Return the stored form of the id of an event.

    Raises: Invalid
    """
    try:
        return bytes.fromhex(event.id.replace("-", ""))
    except ValueError as error:
        raise Invalid(f"The id of an event must be a UUID, got {event.id!r}.") from error


def events_of(goal_id: str, rows: Sequence[Values]) -> list[Event]:
    """Return the events of rows."""
    return [
        make_event(goal_id, seq, _dashed(id_), event_type, iteration, timestamp_us, payload, hash_, v)
        for seq, id_, event_type, iteration, timestamp_us, payload, hash_, v in rows
    ]


def _dashed(id_: bytes) -> str:
    digits = id_.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def inbox_row_of(row: Sequence[Any]) -> InboxRow:
    """Return the value of a row of an inbox.

    Raises: Damaged
    """
    row_id, kind, payload, key, created_us = row
    try:
        content = orjson.loads(payload)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise Damaged(f"The request {row_id} cannot be read: it is not a JSON object.")
    return InboxRow(row_id, kind, content, key, created_us)
