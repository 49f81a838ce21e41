"""The SQL statements of one append. The row of the goal is written first, before any read.

Every change of a goal starts with an update of its row. So on PostgreSQL, the lock of that row serializes all changes
of the goal.
"""

from collections.abc import Sequence

import orjson

from perdure.errors import PerdureError
from perdure.kernel.ports import Appended, ForkedFrom
from perdure.store.goals.append import Append, json_text, missing, no_such_event, replaced
from perdure.store.goals.rows import event_values
from perdure.store.raw import RawTransaction, Values

_CREATE = (
    "INSERT INTO goals (id, text, mind, bot, flow, workdir, queue, tags, forked_from_id, forked_from_seq, parent_id,"
    " parent_call_id, created_at, worker, start_key, status, reason, detail, waiting_for, due_at, deaths, steps,"
    " cost_usd, updated_at, last_seq, last_hash)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING RETURNING goal_no, inbox_count"
)
_ADVANCE = (
    "UPDATE goals SET status = ?, reason = ?, detail = ?, waiting_for = ?, due_at = ?, deaths = ?, steps = ?,"
    " cost_usd = ?, updated_at = ?, last_seq = ?, last_hash = coalesce(?, last_hash), inbox_count = inbox_count - ?,"
    " worker = CASE WHEN ? AND (? OR inbox_count = ?) THEN NULL ELSE worker END"
    " WHERE id = ? AND last_seq = ? AND last_hash = ? AND epoch = ? AND deleted_at IS NULL"
)
_IS_OPEN = " AND status IN ('open', 'waiting')"
_CAN_REOPEN = " AND (status = 'failed' OR status = 'cancelled' AND parent_id IS NOT NULL)"
_RETURNING = " RETURNING goal_no, inbox_count"
_HOLD_ORIGIN = "UPDATE goals SET epoch = epoch WHERE id = ? AND last_seq >= ? AND deleted_at IS NULL RETURNING goal_no"
_TAKE_KEY = "UPDATE goals SET start_key = NULL WHERE id = ? AND start_key = ? AND deleted_at IS NULL RETURNING goal_no"
_POST_TO = (
    "UPDATE goals SET inbox_count = inbox_count + 1"
    " WHERE id = ? AND deleted_at IS NULL AND status IN ('open', 'waiting') RETURNING goal_no"
)
_SET_OVERVIEW = "UPDATE goals SET title = ?, messages = ?, last_text = ?, last_at = ? WHERE goal_no = ?"
INSERT_POST = "INSERT INTO inbox (goal_no, id, kind, payload, key, created_at) VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_EVENTS = (
    "INSERT INTO events (goal_no, seq, id, type, v, iteration, timestamp, payload, hash, key)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_EVENT_HASH = "SELECT hash FROM events JOIN goals USING (goal_no) WHERE goals.id = ? AND seq = ?"
_ORIGIN = "SELECT forked_from_id FROM goals WHERE id = ? AND forked_from_seq >= ?"
_GOAL = "SELECT goal_no, inbox_count, status, last_seq, last_hash, epoch FROM goals WHERE id = ? AND deleted_at IS NULL"
_KNOWN = "SELECT seq, hash FROM events WHERE goal_no = ? AND key = ?"

Answer = Appended | PerdureError
Written = Values | PerdureError | None
"""The number of a goal and the size of its inbox; a final error; or None for a row in another state than expected."""


def create(raw: RawTransaction, append: Append) -> Written:
    """Insert the row of a new goal."""
    if append.taken:
        return append.not_in_inbox()
    summary, origin, parent = append.summary, append.summary.forked_from, append.summary.parent
    if origin is not None and raw.first(_HOLD_ORIGIN, origin.goal_id, origin.seq) is None:
        return no_such_event(origin)
    if origin is not None and hash_at(raw, origin) != append.expected_hash:
        return replaced(origin.goal_id, origin.seq)
    owner = append.takes_key_of
    if owner is not None and raw.first(_TAKE_KEY, owner, summary.start_key) is None:
        return _no_key(raw, append, owner)
    origin_columns = (origin.goal_id, origin.seq) if origin else (None, None)
    parent_columns = (parent.goal_id, parent.call_id) if parent else (None, None)
    worker = None if append.release else append.worker
    created = raw.first(
        _CREATE,
        append.goal_id,
        summary.text,
        summary.mind,
        summary.bot,
        summary.flow,
        summary.workdir,
        summary.queue,
        orjson.dumps(summary.tags).decode(),
        *origin_columns,
        *parent_columns,
        summary.created_us,
        worker,
        summary.start_key,
        *_changed_columns(append),
    )
    if created is None and owner is not None:
        raise append.refusal("open", 0, b"", 0)  # the rollback returns the key
    return created


def _no_key(raw: RawTransaction, append: Append, owner: str) -> PerdureError | None:
    """Return why a start key cannot be taken; None if the new goal exists, so that this call was made before."""
    if raw.first(_GOAL, append.goal_id) is not None:
        return None
    return missing(owner) if raw.first(_GOAL, owner) is None else append.key_was_taken()


def hash_at(raw: RawTransaction, origin: ForkedFrom) -> bytes | None:
    """Return the hash of the event that a fork follows, which may itself be inherited."""
    owner: str | None = origin.goal_id
    seen: set[str] = set()
    while owner is not None and owner not in seen:
        seen.add(owner)
        if (found := raw.first(_EVENT_HASH, owner, origin.seq)) is not None:
            return bytes(found[0])
        above = raw.first(_ORIGIN, owner, origin.seq)
        owner = None if above is None else above[0]
    return None


def advance(raw: RawTransaction, append: Append) -> Values | None:
    """Update the row of a goal by compare-and-swap; None, without any change, if it is not in the expected state."""
    taken = append.taken
    advance = _ADVANCE + (_CAN_REOPEN if append.reopens else _IS_OPEN)
    where: Values = (append.goal_id, append.expected_seq, append.expected_hash, append.epoch)
    if not taken:
        return raw.first(advance + _RETURNING, *_changed_columns(append), 0, *_release_values(append), *where)
    inside = f"inbox WHERE inbox.goal_no = goals.goal_no AND inbox.id IN ({_places(taken)})"
    statement = f"{advance} AND (SELECT count(*) FROM {inside}) = ?{_RETURNING}"  # noqa: S608
    swapped = raw.first(
        statement, *_changed_columns(append), len(taken), *_release_values(append), *where, *taken, len(taken)
    )
    if swapped is not None:
        delete = f"DELETE FROM inbox WHERE goal_no = ? AND id IN ({_places(taken)})"  # noqa: S608
        if raw.execute(delete, swapped[0], *taken).rowcount != len(taken):
            raise append.not_in_inbox()  # another worker took it between the two statements; rolled back
    return swapped


def _release_values(append: Append) -> Values:
    """Return the values of the release: the goal stays owned if its inbox has more rows, unless it has ended."""
    return append.release, append.ends, len(append.taken)


def _changed_columns(append: Append) -> Values:
    """Return the values of the columns that every append changes."""
    summary = append.summary
    return (
        summary.status,
        summary.reason,
        summary.detail,
        summary.waiting_for,
        summary.due_us,
        summary.deaths,
        summary.steps,
        summary.cost_usd,
        summary.updated_us,
        append.seq,
        append.hash,
    )


def _places(values: Sequence[object] | frozenset[str]) -> str:
    return ", ".join("?" * len(values))


class Appends:
    """Writes appends to histories: first the row of each goal, then all events in one statement. See ItemWriter."""

    def forget(self, goal_id: str) -> None:
        """Drop the cached number of a goal."""

    def is_single_statement(self, items: Sequence[Append]) -> bool:  # noqa: ARG002 (see ItemWriter)
        """See ItemWriter.is_single_statement."""
        return False

    def apply(self, raw: RawTransaction, items: Sequence[Append]) -> list[Answer]:
        """See ItemWriter.apply. Rejected appends are answered last: their key may belong to another in the group."""
        written: list[Written] = []
        rows: list[Values] = []
        for append in items:
            found: Written = None
            if append.is_in_order:
                found = self._create(raw, append) if append.makes_goal else self._advance(raw, append)
            written.append(found)
            if isinstance(found, tuple):
                rows += event_values(append, found[0])
        if rows:
            raw.execute_many(_INSERT_EVENTS, rows)
        for append, found in zip(items, written, strict=True):
            if isinstance(found, tuple) and append.changes_overview:
                _set_overview(raw, append, found[0])
            if append.ends_child and isinstance(found, tuple):
                _post_end(raw, append)
        return [_answer(raw, append, found) for append, found in zip(items, written, strict=True)]

    def apply_one(self, raw: RawTransaction, item: Append) -> Answer:
        """See ItemWriter.apply_one. The key is looked up first, because it may be the reason why the group failed."""
        return known_answer(raw, item) or self.apply(raw, [item])[0]

    def _create(self, raw: RawTransaction, append: Append) -> Written:
        return create(raw, append)

    def _advance(self, raw: RawTransaction, append: Append) -> Written:
        return advance(raw, append)


def _set_overview(raw: RawTransaction, append: Append, goal_no: int) -> None:
    """Write the overview of a conversation; other goals have none, and their appends do not pay for it."""
    now = append.summary.overview
    if now is not None:
        raw.execute(_SET_OVERVIEW, now.title, now.messages, now.last_text, now.last_us, goal_no)


def _post_end(raw: RawTransaction, append: Append) -> None:
    """Post the end of a child to its parent, unless the parent has ended.

    The row of the parent is locked after that of the child. On PostgreSQL, two transactions with such pairs may still
    deadlock. PostgreSQL then aborts one of them, and its appends are retried one by one.
    """
    from uuid_utils import uuid7

    parent = append.summary.parent
    found = None if parent is None else raw.first(_POST_TO, parent.goal_id)
    if found is not None:
        row = append.end_of_child(str(uuid7()))
        raw.execute(INSERT_POST, found[0], row.id, row.kind, json_text(row.payload), row.key, row.created_us)


def _answer(raw: RawTransaction, append: Append, written: Written) -> Answer:
    """Return the result of an append from the result of the update of its row."""
    if written is None:
        return first_answer(raw, append)
    if isinstance(written, PerdureError):
        return written
    return Appended(append.seq, inbox_waiting=written[1] > 0)


def first_answer(raw: RawTransaction, append: Append) -> Answer:
    """Return the first result of an append that was made before, or the error of one that cannot be made."""
    row = raw.first(_GOAL, append.goal_id)
    if row is None and append.makes_goal and append.is_in_order and append.summary.start_key is not None:
        return append.key_was_used()
    if row is None:
        return append.refusal("open", 0, b"", 0) if append.makes_goal else missing(append.goal_id)
    goal_no, inbox_count, *now = row
    return _known(raw, append, goal_no, inbox_count) or append.refusal(*now)


def known_answer(raw: RawTransaction, append: Append) -> Answer | None:
    """Return the result of an append whose key is in the history; None for a new one."""
    row = raw.first(_GOAL, append.goal_id) if append.key is not None else None
    return None if row is None else _known(raw, append, row[0], row[1])


def _known(raw: RawTransaction, append: Append, goal_no: int, inbox_count: int) -> Answer | None:
    known = raw.first(_KNOWN, goal_no, append.key) if append.key is not None else None
    if known is None:
        return None
    if known[1] != append.hash:
        return append.other_events()
    return Appended(known[0], inbox_waiting=inbox_count > 0)
