"""Goals in SQLite."""

import os

from perdure.kernel.ports import Worker
from perdure.store.goals.append import Append
from perdure.store.goals.append_sql import Appends, Written, advance, create
from perdure.store.goals.changes import NO_SNAPSHOT
from perdure.store.goals.heartbeats import Lease
from perdure.store.goals.leases import SqlLeases, is_known_dead
from perdure.store.goals.sql_state_store import SqlStateStore
from perdure.store.raw import RawDatabase, RawTransaction
from perdure.store.target import SqliteTarget

_FORGOTTEN_AFTER_US = 24 * 3600 * 1_000_000
_ADVANCE_OPEN = (
    "UPDATE goals SET steps = ?, cost_usd = ?, updated_at = ?, last_seq = ?, last_hash = ?"
    " WHERE goal_no = ? AND id = ? AND last_seq = ? AND last_hash = ? AND epoch = ? AND status = 'open'"
    " AND inbox_count = 0 AND due_at IS NULL AND deaths = 0 AND deleted_at IS NULL"
)


class SqliteAppends(Appends):
    """Appends to histories in SQLite. See ItemWriter.

    Most appends leave a goal open and find its inbox empty. They use a shorter UPDATE, which changes no index and has
    no RETURNING, and takes half the time. It finds the row by the cached number of the goal, and checks its id.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def forget(self, goal_id: str) -> None:
        """See Appends.forget."""
        self._numbers.pop(goal_id, None)

    def _create(self, raw: RawTransaction, append: Append) -> Written:
        return self._learn(append, create(raw, append))

    def _advance(self, raw: RawTransaction, append: Append) -> Written:
        goal_no = self._numbers.get(append.goal_id)
        if goal_no is not None and _stays_open(append) and _advance_open(raw, append, goal_no):
            return goal_no, 0
        return self._learn(append, advance(raw, append))

    def _learn(self, append: Append, written: Written) -> Written:
        """Cache the number of a goal, if its row was written."""
        if isinstance(written, tuple):
            self._numbers[append.goal_id] = written[0]
        return written


def _stays_open(append: Append) -> bool:
    summary = append.summary
    is_open = summary.status == "open" and summary.due_us is None and summary.deaths == 0 and not append.release
    return is_open and append.is_plain and bool(append.events)


def _advance_open(raw: RawTransaction, append: Append, goal_no: int) -> bool:
    summary = append.summary
    moved = raw.execute(
        _ADVANCE_OPEN,
        summary.steps,
        summary.cost_usd,
        summary.updated_us,
        append.seq,
        append.hash,
        goal_no,
        append.goal_id,
        append.expected_seq,
        append.expected_hash,
        append.epoch,
    )
    return bool(moved.rowcount == 1)


class SqliteStateStore(SqlStateStore):
    """The histories of goals in SQLite: `SqliteStateStore("goals.db")`, or over an open database. See StateStore.

    A store that was made by a path opens the file at its first use, and is closed by `close` or `async with`.

    Raises: Invalid when the path is a URL of another database.
    """

    _payload_bytes = "length(CAST(payload AS BLOB))"
    _has_tag = "instr(tags, ?) > 0"
    _snapshot = NO_SNAPSHOT

    def __init__(self, database: RawDatabase | str | os.PathLike[str]) -> None:
        super().__init__(self._found(database, SqliteTarget), SqliteAppends())


class SqliteLeases(SqlLeases):
    """The leases in SQLite, by the time since the boot of this machine, which does not jump. See Leases."""

    _is_skipped = "id || '@' || last_seq IN (SELECT value FROM json_each(?))"
    _lock = ""  # SQLite has one writer

    def _now_us(self, raw: RawTransaction) -> int:  # noqa: ARG002 (SQLite has no clock of its own)
        return round(self._boottime_s() * 1_000_000)

    def _left_s(self, lease: Lease, now_us: int, observer: Worker, asked_s: float) -> float | None:  # noqa: ARG002
        """See SqlLeases._left_s. A worker of an earlier boot is dead, whatever its deadline."""
        is_live = lease.worker.boot_id == observer.boot_id and lease.deadline_us > now_us
        return None if is_live and not is_known_dead(lease.worker, observer, self._is_dead) else 0

    def _prefer_order(self, raw: RawTransaction) -> None:
        """See SqlLeases._prefer_order. SQLite needs no hint."""

    def _forget(self, raw: RawTransaction, now_us: int) -> None:
        raw.execute("DELETE FROM leases WHERE deadline < ?", now_us - _FORGOTTEN_AFTER_US)
