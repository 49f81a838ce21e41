"""The histories of goals in a SQL database; SQLite and PostgreSQL run the same statements.

Whoever changes a goal touches its row first, so that on PostgreSQL too the lock of that row orders all who do.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from perdure.errors import Conflict, Damaged, NotFound
from perdure.kernel.ports import Appended, Event, InboxRow, Status, Summary
from perdure.store.database import Database
from perdure.store.goals.append import ENDED, Append, ended, json_text, missing, the_one
from perdure.store.goals.rows import (
    BY_PREFIX,
    event_of,
    event_values,
    first,
    inbox_row_of,
    listing,
    run,
    run_many,
    summary_of,
)

if TYPE_CHECKING:
    from perdure.store.transaction import Transaction

_CREATE = (
    "INSERT INTO goals (id, text, mind, bot, workdir, runner, parent_id, parent_seq, created_at, worker,"
    " status, reason, waiting_for, steps, cost_usd, updated_at, last_seq, last_hash)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO NOTHING RETURNING goal_no, inbox_count"
)
_ADVANCE = (
    "UPDATE goals SET status = ?, reason = ?, waiting_for = ?, steps = ?, cost_usd = ?, updated_at = ?,"
    " last_seq = ?, last_hash = coalesce(?, last_hash), inbox_count = inbox_count - ?,"
    " worker = CASE WHEN ? THEN NULL ELSE worker END"
    " WHERE id = ? AND last_seq = ? AND epoch = ? AND inbox_count >= ?"
    " AND deleted_at IS NULL AND status IN ('open', 'waiting') RETURNING goal_no, inbox_count"
)
_INSERT_EVENTS = (
    "INSERT INTO events (goal_no, seq, id, type, v, iteration, timestamp, payload, hash, key)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_OWN_EVENTS = (
    "SELECT seq, id, type, iteration, timestamp, payload, hash, v FROM events"
    " WHERE goal_no = ? AND seq > ? AND seq <= ? ORDER BY seq"
)
_DELETE = (
    "UPDATE goals SET deleted_at = ?, text = '', bot = NULL, workdir = NULL, inbox_count = 0"
    " WHERE id = ? AND deleted_at IS NULL AND status IN ('done', 'stopped') RETURNING goal_no"
)


class SqlStateStore:
    """The histories of goals in a SQL database. See StateStore."""

    def __init__(self, database: Database, *, now_us: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self._database = database
        self._now_us = now_us

    async def append_event(  # noqa: PLR0913 (see the port)
        self,
        goal_id: str,
        events: Sequence[Event],
        *,
        expected_seq: int,
        epoch: int,
        summary: Summary,
        key: str | None = None,
        worker: str | None = None,
        taken: Sequence[str] = (),
        release: bool = False,
    ) -> Appended:
        """See StateStore.append_event."""
        append = Append(goal_id, tuple(events), expected_seq, epoch, summary, key, worker, frozenset(taken), release)
        append.require_one_goal()
        return await self._database.write(lambda tx: _append(tx, append))

    async def load(self, goal_id: str, *, after: int = 0) -> list[Event]:
        """See StateStore.load."""
        return await self._database.read(lambda tx: _load(tx, goal_id, after))

    async def list_goals(
        self, *, status: Status | None = None, limit: int = 50, before: str | None = None
    ) -> list[Summary]:
        """See StateStore.list_goals."""
        statement, values = listing(status, before, limit)
        return await self._database.read(lambda tx: [summary_of(row) for row in run(tx, statement, *values)])

    async def find(self, prefix: str) -> Summary:
        """See StateStore.find."""
        found = await self._database.read(
            lambda tx: [summary_of(row) for row in run(tx, BY_PREFIX, len(prefix), prefix)]
        )
        return the_one(prefix, found)

    async def delete(self, goal_id: str) -> None:
        """See StateStore.delete."""
        await self._database.write(lambda tx: _delete(tx, goal_id, self._now_us()))

    async def post(self, goal_id: str, kind: str, payload: dict[str, Any], *, key: str) -> None:
        """See StateStore.post."""
        content = (kind, json_text(payload), key, self._now_us())
        await self._database.write(lambda tx: _post(tx, goal_id, content, key))

    async def inbox(self, goal_id: str) -> list[InboxRow]:
        """See StateStore.inbox."""
        query = (
            "SELECT inbox.id, kind, payload, key, inbox.created_at FROM inbox JOIN goals USING (goal_no)"
            " WHERE goals.id = ? ORDER BY inbox_no"
        )
        return await self._database.read(lambda tx: [inbox_row_of(row) for row in run(tx, query, goal_id)])


def _append(tx: "Transaction", append: Append) -> Appended:
    """Swap the row of the goal, then insert: nothing is read before it is written, unless the swap fails."""
    swapped = _swap(tx, append)
    if swapped is None:
        return _first_answer(tx, append)
    goal_no, inbox_count = swapped
    _insert_events(tx, append, goal_no)
    if append.taken:
        places = ", ".join("?" * len(append.taken))
        gone = run(tx, f"DELETE FROM inbox WHERE goal_no = ? AND id IN ({places})", goal_no, *append.taken)  # noqa: S608
        if gone.rowcount != len(append.taken):
            raise append.not_in_inbox()
    return Appended(append.seq, inbox_waiting=inbox_count > 0)


def _swap(tx: "Transaction", append: Append) -> Sequence[Any] | None:
    """Make the goal's row, or move it on; None when it is not as expected."""
    summary = append.summary
    moving = (
        *(summary.status, summary.reason, summary.waiting_for, summary.steps, summary.cost_usd, summary.updated_us),
        *(append.seq, append.hash),
    )
    if not append.is_in_order:
        return None
    if not append.makes_goal:
        count = len(append.taken)
        where = (append.goal_id, append.expected_seq, append.epoch, count)
        return first(tx, _ADVANCE, *moving, count, append.release, *where)
    parent = summary.parent
    if parent is not None:
        _hold_parent(tx, parent.goal_id, parent.seq)
    fixed = (
        *(append.goal_id, summary.text, summary.mind, summary.bot, summary.workdir, summary.runner),
        *((parent.goal_id, parent.seq) if parent else (None, None)),
        *(summary.created_us, None if append.release else append.worker),
    )
    return first(tx, _CREATE, *fixed, *moving)


def _hold_parent(tx: "Transaction", goal_id: str, seq: int) -> None:
    """See that a fork's parent is there, and keep it from being deleted meanwhile.

    Raises: NotFound
    """
    held = "UPDATE goals SET epoch = epoch WHERE id = ? AND last_seq >= ? AND deleted_at IS NULL RETURNING goal_no"
    if first(tx, held, goal_id, seq) is None:
        raise NotFound(f"There is no event {seq} of {goal_id} to fork from.")


def _insert_events(tx: "Transaction", append: Append, goal_no: int) -> None:
    from sqlalchemy.exc import IntegrityError

    rows = list(event_values(append, goal_no))
    try:
        if rows:
            run_many(tx, _INSERT_EVENTS, rows)
    except IntegrityError as error:
        if append.key is None:
            raise
        raise append.other_events() from error


def _first_answer(tx: "Transaction", append: Append) -> Appended:
    """Answer an append that was made before.

    Raises: NotFound, or Conflict that says why it is refused, when it is a new one
    """
    query = "SELECT goal_no, inbox_count, status, last_seq, epoch FROM goals WHERE id = ? AND deleted_at IS NULL"
    row = first(tx, query, append.goal_id)
    if row is None:
        raise append.refusal("open", 0, 0) if append.makes_goal else missing(append.goal_id)
    goal_no, inbox_count, *now = row
    if append.key is not None:
        query = "SELECT seq, hash FROM events WHERE goal_no = ? AND key = ?"
        known = first(tx, query, goal_no, append.key)
        if known is not None and known[1] == append.hash:
            return Appended(known[0], inbox_waiting=inbox_count > 0)
        if known is not None:
            raise append.other_events()
    raise append.refusal(*now)


def _load(tx: "Transaction", goal_id: str, after: int) -> list[Event]:
    """Read the goal's own events, then those of its parents up to where they were left."""
    query = "SELECT goal_no, last_seq, last_hash, parent_id, parent_seq FROM goals WHERE id = ? AND deleted_at IS NULL"
    parts: list[list[Event]] = []
    owner: str | None = goal_id
    upto: int | None = None
    while owner is not None and (upto is None or after < upto):
        row = first(tx, query, owner)
        if row is None:
            raise missing(owner)
        goal_no, last_seq, last_hash, parent_id, parent_seq = row
        until = last_seq if upto is None else min(upto, last_seq)
        own = [event_of(owner, found) for found in run(tx, _OWN_EVENTS, goal_no, after, until)]
        if upto is None and last_seq > after:
            _refuse_cut_tail(goal_id, own, last_seq, last_hash)
        parts.append(own)
        owner, upto = parent_id, until if parent_seq is None else min(until, parent_seq)
    return [event for part in reversed(parts) for event in part]


def _refuse_cut_tail(goal_id: str, own: Sequence[Event], last_seq: int, last_hash: bytes) -> None:
    if not own or own[-1].seq != last_seq:
        raise Damaged(f"Event {last_seq} of {goal_id} is missing; it was the last.")
    if own[-1].hash != last_hash:
        raise Damaged(f"Event {last_seq} of {goal_id} is not what was written.")


def _delete(tx: "Transaction", goal_id: str, now_us: int) -> None:
    row = first(tx, _DELETE, now_us, goal_id)
    if row is None:
        if first(tx, "SELECT 1 FROM goals WHERE id = ? AND deleted_at IS NULL", goal_id) is None:
            raise missing(goal_id)
        raise Conflict(f"{goal_id} has not ended; cancel it first.")
    fork = first(tx, "SELECT id FROM goals WHERE parent_id = ? AND deleted_at IS NULL LIMIT 1", goal_id)
    if fork is not None:
        raise Conflict(f"{goal_id} has a fork, {fork[0]}; delete that first.")
    run(tx, "DELETE FROM events WHERE goal_no = ?", row[0])
    run(tx, "DELETE FROM inbox WHERE goal_no = ?", row[0])


def _post(tx: "Transaction", goal_id: str, content: tuple[Any, ...], key: str) -> None:
    from uuid_utils import uuid7

    held = "UPDATE goals SET inbox_count = inbox_count WHERE id = ? AND deleted_at IS NULL RETURNING goal_no, status"
    row = first(tx, held, goal_id)
    if row is None:
        raise missing(goal_id)
    goal_no, status = row
    known = (
        "SELECT 1 FROM inbox WHERE goal_no = ? AND key = ? UNION ALL SELECT 1 FROM events WHERE goal_no = ? AND key = ?"
    )
    if first(tx, known, goal_no, key, goal_no, key) is not None:
        return
    if status in ENDED:
        raise ended(goal_id)
    insert = "INSERT INTO inbox (goal_no, id, kind, payload, key, created_at) VALUES (?, ?, ?, ?, ?, ?)"
    run(tx, insert, goal_no, str(uuid7()), *content)
    run(tx, "UPDATE goals SET inbox_count = inbox_count + 1 WHERE goal_no = ?", goal_no)
