"""The histories of goals in a SQL database; subclasses provide the appends and expressions of each kind."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import orjson

from perdure.errors import Invalid, Unavailable
from perdure.kernel.history.deletion import has_fork, not_finished
from perdure.kernel.ports import (
    ALL_GOALS,
    Admit,
    Appended,
    ChangedGoals,
    ChangeListener,
    Ended,
    Event,
    GoalFilter,
    InboxRow,
    Posted,
    Summary,
)
from perdure.statuses import FINAL
from perdure.store.goals.append import (
    Append,
    json_text,
    missing,
    require_key,
    require_same_post,
    the_one,
)
from perdure.store.goals.append_sql import INSERT_POST, Appends
from perdure.store.goals.changes import Mark, changed_goals
from perdure.store.goals.history import Page, load
from perdure.store.goals.rows import (
    BY_ID,
    BY_KEY,
    BY_PREFIX,
    BY_START_KEY,
    DELETED,
    POSTED,
    QUEUED,
    conversation_listing,
    due_listing,
    inbox_row_of,
    listing,
    summary_of,
)
from perdure.store.raw import RawDatabase, RawTransaction
from perdure.store.target import PostgresTarget, SqliteTarget, parse_target

if TYPE_CHECKING:
    from perdure.store.on_demand import DatabaseOnDemand

_INBOX = "SELECT id, kind, payload, key, created_at FROM inbox WHERE goal_no = ? ORDER BY inbox_no"
_END = (
    "UPDATE goals SET status = 'cancelled', waiting_for = NULL, worker = NULL, due_at = NULL, epoch = epoch + 1"
    " WHERE id = ? AND deleted_at IS NULL AND status IN ('open', 'waiting')"
)
"""Ends an unfinished goal before its deletion in the same transaction."""
_DELETE = (
    "UPDATE goals SET deleted_at = ?, text = '', bot = NULL, workdir = NULL, start_key = NULL, inbox_count = 0,"
    " flow = NULL, detail = NULL, tags = '[]', title = NULL, messages = NULL, last_text = NULL, last_at = NULL"
    " WHERE id = ? AND deleted_at IS NULL AND status IN ('done', 'failed', 'cancelled')"
    " RETURNING goal_no"
)


class SqlStateStore:
    """The goals in a SQL database. See StateStore, Inbox, GoalDirectory and Changes."""

    _payload_bytes: str
    """The SQL expression for the size of a payload in bytes."""
    _has_tag: str
    """The SQL condition that the column of tags contains a text."""
    _snapshot: str
    """The SQL expression of the snapshot of a transaction."""
    _own: "DatabaseOnDemand | None" = None
    """The database that this store opened by a path or URL."""

    def __init__(
        self, database: RawDatabase, appends: Appends, *, now_us: Callable[[], int] = lambda: time.time_ns() // 1000
    ) -> None:
        self._database = database
        self._appends = appends
        self._now_us = now_us
        self._active: set[str] = set()
        self._listeners: list[ChangeListener] = []

    def _found(
        self, database: RawDatabase | str | os.PathLike[str], kind: type[SqliteTarget | PostgresTarget]
    ) -> RawDatabase:
        """Return an open database unchanged; for a path or URL, a database that is opened at its first use.

        Raises: Invalid
        """
        if not isinstance(database, str | os.PathLike):
            return database
        from perdure.store.on_demand import DatabaseOnDemand

        target = parse_target(database)
        if not isinstance(target, kind):
            raise Invalid(f"{target.shown} is not a database of {type(self).__name__}.")
        self._own = DatabaseOnDemand(target)
        return self._own

    async def close(self) -> None:
        """Close the database if this store opened it by a path or URL."""
        if self._own is not None:
            await self._own.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def append_event(  # noqa: PLR0913 (see the port)
        self,
        goal_id: str,
        events: Sequence[Event],
        *,
        expected_seq: int,
        expected_hash: bytes,
        epoch: int,
        summary: Summary,
        key: str | None = None,
        worker: str | None = None,
        taken: Sequence[str] = (),
        release: bool = False,
        takes_key_of: str | None = None,
    ) -> Appended:
        """See StateStore.append_event."""
        expected = (expected_seq, expected_hash, epoch)
        append = Append(
            goal_id, tuple(events), *expected, summary, key, worker, frozenset(taken), release, takes_key_of
        )
        append.require_sense()
        self._active.add(goal_id)
        is_active = False
        try:
            done = await self._database.submit(self._appends, append, expects_no_other=len(self._active) == 1)
            is_active = not append.ends and (done.inbox_waiting or not release)
            if events:
                self._notify(goal_id, append.events)
        except (Unavailable, asyncio.CancelledError):
            self._notify(None, ())  # it may be stored
            raise
        finally:
            if not is_active:
                self.forget_active(goal_id)
        return done

    def forget_active(self, goal_id: str) -> None:
        """Expect no more appends to a goal; a single active goal can commit without waiting for others."""
        self._active.discard(goal_id)
        self._appends.forget(goal_id)

    async def load(
        self, goal_id: str, *, after: int = 0, upto: int | None = None, max_bytes: int | None = None
    ) -> list[Event]:
        """See StateStore.load."""
        page = None if max_bytes is None else Page.of(max_bytes, self._payload_bytes)
        return await self._database.read_raw(lambda raw: load(raw, goal_id, after, upto, page))

    async def list_goals(
        self,
        *,
        where: GoalFilter = ALL_GOALS,
        limit: int = 50,
        before: str | None = None,
    ) -> list[Summary]:
        """See StateStore.list_goals."""
        statement, values = listing(where, self._has_tag, before, limit)
        return await self._database.read_raw(lambda raw: [summary_of(row) for row in raw.execute(statement, *values)])

    async def due(
        self, now_us: int, *, queue: str | None = None, limit: int = 50, after: Summary | None = None
    ) -> list[Summary]:
        """See GoalDirectory.due."""
        statement, values = due_listing(now_us, queue, after, limit)
        return await self._database.read_raw(lambda raw: [summary_of(row) for row in raw.execute(statement, *values)])

    async def conversations(
        self, bot: str | None, *, limit: int = 50, after: tuple[int, str] | None = None
    ) -> list[Summary]:
        """See GoalDirectory.conversations."""
        statement, values = conversation_listing(bot, after, limit)
        return await self._database.read_raw(lambda raw: [summary_of(row) for row in raw.execute(statement, *values)])

    async def count_queued(self, *, queue: str) -> int:
        """See GoalDirectory.count_queued."""
        row = await self._database.read_raw(lambda raw: raw.first(QUEUED, queue))
        return int(row[0]) if row else 0

    async def find(self, prefix: str) -> Summary:
        """See StateStore.find."""
        return the_one(prefix, *await self._database.read_raw(lambda raw: _find(raw, prefix)))

    async def started(self, key: str) -> Summary | None:
        """See GoalDirectory.started."""
        require_key(key)
        row = await self._database.read_raw(lambda raw: raw.first(BY_START_KEY, key))
        return None if row is None else summary_of(row)

    async def delete(self, goal_id: str, *, even_unfinished: bool = False) -> None:
        """See StateStore.delete."""
        now_us = self._now_us()
        await self._database.write_raw(lambda raw: _delete(raw, goal_id, now_us, even_unfinished=even_unfinished))
        self._notify(goal_id, ())

    async def post(  # noqa: PLR0913 (what is posted, its key, its check and its moment)
        self,
        goal_id: str,
        kind: str,
        payload: dict[str, Any],
        *,
        key: str,
        after: int = 0,
        admit: Admit | None = None,
        created_us: int | None = None,
    ) -> bool:
        """See Inbox.post."""
        require_key(key)
        at_us = self._now_us() if created_us is None else created_us
        row = InboxRow("", kind, orjson.loads(json_text(payload)), key, at_us)
        return await self._database.write_raw(lambda raw: _post(raw, goal_id, row, after, admit))

    async def inbox(self, goal_id: str) -> list[InboxRow]:
        """See Inbox.inbox."""
        query = (
            "SELECT inbox.id, kind, payload, key, inbox.created_at FROM inbox JOIN goals USING (goal_no)"
            " WHERE goals.id = ? ORDER BY inbox_no"
        )
        return await self._database.read_raw(lambda raw: [inbox_row_of(row) for row in raw.execute(query, goal_id)])

    async def posted(self, worker_id: str) -> list[str]:
        """See Inbox.posted."""
        return await self._database.read_raw(lambda raw: [row[0] for row in raw.execute(POSTED, worker_id)])

    async def posted_as(self, goal_id: str, key: str) -> Posted | None:
        """See Inbox.posted_as."""
        require_key(key)
        return await self._database.read_raw(lambda raw: _posted_as(raw, goal_id, key))

    async def changes(self, after: Mark | None) -> ChangedGoals:
        """See Changes.changes."""
        return await self._database.read_raw(lambda raw: changed_goals(raw, after, self._snapshot))

    def watch(self, listener: ChangeListener) -> Callable[[], None]:
        """See Changes.watch."""
        stop = self._database.watch(lambda: listener(None, ()))
        self._listeners.append(listener)

        def end() -> None:
            self._listeners.remove(listener)
            stop()

        return end

    def _notify(self, goal_id: str | None, events: Sequence[Event]) -> None:
        self._database.announce()
        for listener in tuple(self._listeners):
            listener(goal_id, events)


def _posted_as(raw: RawTransaction, goal_id: str, key: str) -> Posted | None:
    row = raw.first("SELECT goal_no FROM goals WHERE id = ? AND deleted_at IS NULL", goal_id)
    found = None if row is None else raw.first(BY_KEY, row[0], key, row[0], key)
    return None if found is None else Posted(found[0], orjson.loads(found[1]), found[2])


def _find(raw: RawTransaction, prefix: str) -> tuple[list[Summary], list[str]]:
    """Return the goal with this id, which an index finds, else those with the prefix; else deleted ones."""
    rows = raw.execute(BY_ID, prefix).fetchall() or raw.execute(BY_PREFIX, len(prefix), prefix).fetchall()
    deleted = [] if rows else raw.execute(DELETED, len(prefix), prefix).fetchall()
    return [summary_of(row) for row in rows], [row[0] for row in deleted]


def _delete(raw: RawTransaction, goal_id: str, now_us: int, *, even_unfinished: bool) -> None:
    if even_unfinished:
        raw.execute(_END, goal_id)
    row = raw.first(_DELETE, now_us, goal_id)
    if row is None:
        if raw.first("SELECT 1 FROM goals WHERE id = ? AND deleted_at IS NULL", goal_id) is None:
            raise missing(goal_id)
        raise not_finished(goal_id)
    fork = raw.first("SELECT id FROM goals WHERE forked_from_id = ? AND deleted_at IS NULL LIMIT 1", goal_id)
    if fork is not None:
        raise has_fork(goal_id, fork[0])
    raw.execute("DELETE FROM events WHERE goal_no = ?", row[0])
    raw.execute("DELETE FROM inbox WHERE goal_no = ?", row[0])


def _post(raw: RawTransaction, goal_id: str, post: InboxRow, after: int, admit: Admit | None) -> bool:
    """Post a row if `admit` accepts it. The row of the goal is locked from the first statement to the commit."""
    from uuid_utils import uuid7

    held = "UPDATE goals SET inbox_count = inbox_count WHERE id = ? AND deleted_at IS NULL RETURNING goal_no, status"
    row = raw.first(held, goal_id)
    if row is None:
        raise missing(goal_id)
    goal_no, status = row
    found = raw.first(BY_KEY, goal_no, post.key, goal_no, post.key)
    if found is not None:
        require_same_post(goal_id, post, found[0], orjson.loads(found[1]))
        return False
    if admit is not None:
        admit(load(raw, goal_id, after, None), [inbox_row_of(each) for each in raw.execute(_INBOX, goal_no)])
    if status in FINAL:
        raise Ended(goal_id)
    raw.execute(INSERT_POST, goal_no, str(uuid7()), post.kind, json_text(post.payload), post.key, post.created_us)
    raw.execute("UPDATE goals SET inbox_count = inbox_count + 1 WHERE goal_no = ?", goal_no)
    return True
