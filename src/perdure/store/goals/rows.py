"""The rows of goals as the values that they stand for."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import orjson

from perdure.errors import Damaged, Invalid
from perdure.kernel.events import make_event
from perdure.kernel.ports import Event, ForkedFrom, GoalFilter, InboxRow, ParentCall, Summary
from perdure.store.goals.append import Append
from perdure.store.raw import Values

_ALL = "goal_no > 0"
"""All numbers are; said so that SQLite goes by them instead of sorting."""
_BEFORE = "goal_no < (SELECT goal_no FROM goals WHERE id = ?)"
_SUMMARY = (
    "SELECT id, text, mind, status, created_at, updated_at, last_seq, steps, cost_usd, reason, detail, waiting_for,"
    " bot, flow, workdir, forked_from_id, forked_from_seq, parent_id, parent_call_id, tags, queue, worker, due_at,"
    " start_key, deaths FROM goals WHERE deleted_at IS NULL"
)
_NO_KEY = (None,)
_ORIGIN_AT = [field.name for field in fields(Summary)].index("forked_from")
POSTED = "SELECT id FROM goals WHERE worker = ? AND inbox_count > 0 ORDER BY goal_no"
BY_KEY = (
    "SELECT kind, payload FROM inbox WHERE goal_no = ? AND key = ?"
    " UNION ALL SELECT type, payload FROM events WHERE goal_no = ? AND key = ?"
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

    The characters that a tag may have are those that JSON writes as they are, so its quoted form is in that column if
    and only if the goal has the tag.
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
    """Return the condition that a column has one of some values; of none, no row has one."""
    return f"{column} = ?" if count == 1 else f"{column} IN ({', '.join('?' * count)})" if count else "1 = 0"


QUEUED = "SELECT count(*) FROM goals WHERE deleted_at IS NULL AND status = 'open' AND queue = ? AND worker IS NULL"


def due_listing(now_us: int, queue: str | None, after: Summary | None, limit: int) -> tuple[str, Values]:
    """Return the query of goals that are due, the longest first, after one that may not be due any more."""
    conditions: dict[str, Values] = {"due_at <= ?": (now_us,)}
    if queue is not None:
        conditions["queue = ?"] = (queue,)
    if after is not None:
        place = "(due_at, goal_no) > (?, (SELECT goal_no FROM goals WHERE id = ?))"
        conditions[place] = (after.due_us, after.goal_id)
    values = [value for given in conditions.values() for value in given]
    return f"{_SUMMARY} AND {' AND '.join(conditions)} ORDER BY due_at, goal_no LIMIT ?", (*values, limit)


def summary_of(row: Sequence[Any]) -> Summary:
    """Read a row of a list."""
    origin_id, origin_seq, parent_id, parent_call_id, tags, *rest = row[_ORIGIN_AT:]
    origin = None if origin_id is None else ForkedFrom(origin_id, origin_seq)
    parent = None if parent_id is None else ParentCall(parent_id, parent_call_id)
    values: Values = (*row[:_ORIGIN_AT], origin, parent, tuple(orjson.loads(tags)) if tags != "[]" else (), *rest)
    return Summary(*values)


def event_values(append: Append, goal_no: int) -> list[Values]:
    """Give the rows of an append's events; its key stands on the last.

    Raises: Invalid
    """
    key, last = append.key, append.seq
    return [
        (goal_no, e.seq, id_bytes(e), e.type, e.v, e.iteration, e.timestamp_us, e.payload, e.hash)
        + ((key,) if e.seq == last else _NO_KEY)
        for e in append.events
    ]


def id_bytes(event: Event) -> bytes:
    """Write the id of an event as it is stored.

    Raises: Invalid
    """
    try:
        return bytes.fromhex(event.id.replace("-", ""))
    except ValueError as error:
        raise Invalid(f"The id of an event is a UUID, which {event.id!r} is not.") from error


def events_of(goal_id: str, rows: Sequence[Values]) -> list[Event]:
    """Read rows of events."""
    return [
        make_event(goal_id, seq, _dashed(id_), event_type, iteration, timestamp_us, payload, hash_, v)
        for seq, id_, event_type, iteration, timestamp_us, payload, hash_, v in rows
    ]


def _dashed(id_: bytes) -> str:
    digits = id_.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def inbox_row_of(row: Sequence[Any]) -> InboxRow:
    """Read a row of an inbox.

    Raises: Damaged
    """
    row_id, kind, payload, key, created_us = row
    try:
        content = orjson.loads(payload)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise Damaged(f"What was posted as {row_id} cannot be read: it is not a JSON object.")
    return InboxRow(row_id, kind, content, key, created_us)
