"""Goals in PostgreSQL."""

from collections.abc import Callable, Iterator, Sequence

import orjson

from perdure.kernel.ports import Appended, Worker
from perdure.store.goals.append import Append
from perdure.store.goals.append_sql import Answer, Appends, first_answer
from perdure.store.goals.changes import POSTGRES_SNAPSHOT
from perdure.store.goals.heartbeats import Heartbeats, Lease
from perdure.store.goals.leases import (
    LEASES,
    IsDead,
    OnRelease,
    SqlLeases,
    assume_alive,
    ignore_release,
    is_known_dead,
    lease_of,
)
from perdure.store.goals.rows import id_bytes
from perdure.store.goals.sql_state_store import SqlStateStore
from perdure.store.raw import RawDatabase, RawTransaction
from perdure.store.target import PostgresTarget

_FORGOTTEN_AFTER_S = 3600.0
_CHECK_EVERY_S = 60.0
_FORGET = "DELETE FROM leases WHERE worker = ? AND beat = ? AND deadline = ?"
_ADVANCE_ALL = """
WITH asked AS (
    SELECT * FROM json_to_recordset(CAST(? AS JSON)) AS asked (
        n INT, goal TEXT, expected BIGINT, expected_hash TEXT, epoch BIGINT, status TEXT, reason TEXT,
        detail TEXT, waiting_for TEXT, due_at BIGINT, deaths BIGINT, steps BIGINT,
        cost_usd DOUBLE PRECISION, updated_at BIGINT, last_seq BIGINT, last_hash TEXT, release BOOLEAN, ends BOOLEAN)
), swapped AS (
    UPDATE goals SET status = asked.status, reason = asked.reason, detail = asked.detail,
        waiting_for = asked.waiting_for, due_at = asked.due_at, deaths = asked.deaths,
        steps = asked.steps, cost_usd = asked.cost_usd, updated_at = asked.updated_at, last_seq = asked.last_seq,
        last_hash = coalesce(decode(asked.last_hash, 'hex'), goals.last_hash),
        worker = CASE WHEN asked.release AND (asked.ends OR goals.inbox_count = 0) THEN NULL ELSE goals.worker END
    FROM asked
    WHERE goals.id = asked.goal AND goals.last_seq = asked.expected AND goals.epoch = asked.epoch
        AND goals.last_hash = decode(asked.expected_hash, 'hex')
        AND NOT EXISTS (SELECT FROM alembic_version WHERE version_num > ?)
        AND goals.deleted_at IS NULL AND goals.status IN ('open', 'waiting')
    RETURNING asked.n, goals.goal_no, goals.inbox_count
), stored AS (
    INSERT INTO events (goal_no, seq, id, type, v, iteration, timestamp, payload, hash, key)
    SELECT swapped.goal_no, event.seq, decode(event.id, 'hex'), event.type, event.v, event.iteration, event.timestamp,
        event.payload, decode(event.hash, 'hex'), event.key
    FROM json_to_recordset(CAST(? AS JSON)) AS event (
        n INT, seq BIGINT, id TEXT, type TEXT, v BIGINT, iteration BIGINT, timestamp BIGINT, payload TEXT, hash TEXT,
        key TEXT)
    JOIN swapped USING (n)
)
SELECT n, inbox_count FROM swapped"""
"""Events of a goal whose row was not updated match no row in the join, so they are not inserted."""


class PostgresAppends(Appends):
    """Writes appends in PostgreSQL; plain ones share one statement. See Append.is_plain and ItemWriter."""

    def is_single_statement(self, items: Sequence[Append]) -> bool:
        """See ItemWriter.is_single_statement."""
        return all(append.is_plain for append in items) and len({append.goal_id for append in items}) == len(items)

    def apply(self, raw: RawTransaction, items: Sequence[Append]) -> list[Answer]:
        """See ItemWriter.apply."""
        return [answer for part in _one_of_each_goal(items) for answer in self._all(raw, part)]

    def _all(self, raw: RawTransaction, items: Sequence[Append]) -> Iterator[Answer]:
        """Yield the results of appends to distinct goals; those that need several statements are done first."""
        others = iter(super().apply(raw, [append for append in items if not append.is_plain]))
        plain = [append for append in items if append.is_plain]
        moved = iter(_advance_all(raw, plain) if plain else ())
        return (next(moved) if append.is_plain else next(others) for append in items)


def _one_of_each_goal(items: Sequence[Append]) -> Iterator[list[Append]]:
    """Split appends, in order, so that no part has two of one goal, because an UPDATE changes a row once."""
    part: dict[str, Append] = {}
    for append in items:
        if append.goal_id in part:
            yield list(part.values())
            part = {}
        part[append.goal_id] = append
    yield list(part.values())


def _advance_all(raw: RawTransaction, appends: Sequence[Append]) -> list[Answer]:
    in_order = [(n, append) for n, append in enumerate(appends) if append.is_in_order]
    asked = orjson.dumps([_columns(n, append) for n, append in in_order]).decode()
    events = orjson.dumps([event for n, append in in_order for event in _events(n, append)]).decode()
    moved = dict(raw.execute(_ADVANCE_ALL, asked, raw.head, events).fetchall())
    if len(moved) < len(appends):
        raw.refuse_newer()
    return [
        Appended(append.seq, inbox_waiting=moved[n] > 0) if n in moved else first_answer(raw, append)
        for n, append in enumerate(appends)
    ]


def _columns(n: int, append: Append) -> dict[str, object]:
    summary = append.summary
    return {
        "n": n,
        "goal": append.goal_id,
        "expected": append.expected_seq,
        "expected_hash": append.expected_hash.hex(),
        "epoch": append.epoch,
        "status": summary.status,
        "reason": summary.reason,
        "detail": summary.detail,
        "waiting_for": summary.waiting_for,
        "due_at": summary.due_us,
        "deaths": summary.deaths,
        "steps": summary.steps,
        "cost_usd": summary.cost_usd,
        "updated_at": summary.updated_us,
        "last_seq": append.seq,
        "last_hash": append.hash.hex() if append.hash is not None else None,
        "release": append.release,
        "ends": append.ends,
    }


def _events(n: int, append: Append) -> Iterator[dict[str, object]]:
    for event in append.events:
        yield {
            "n": n,
            "seq": event.seq,
            "id": id_bytes(event).hex(),
            "type": event.type,
            "v": event.v,
            "iteration": event.iteration,
            "timestamp": event.timestamp_us,
            "payload": event.payload,
            "hash": event.hash.hex(),
            "key": append.key if event.seq == append.seq else None,
        }


class PostgresStateStore(SqlStateStore):
    """The histories of goals in PostgreSQL, by a URL or over an open database. See StateStore and SqliteStateStore."""

    _payload_bytes = "octet_length(payload)"
    _has_tag = "strpos(tags, ?) > 0"
    _snapshot = POSTGRES_SNAPSHOT

    def __init__(self, database: RawDatabase | str) -> None:
        super().__init__(self._found(database, PostgresTarget), PostgresAppends())


class PostgresLeases(SqlLeases):
    """The leases in PostgreSQL. See Leases.

    A worker is proven dead by its heartbeats, because the wall clock of the server may jump; see `heartbeats`. `now` is
    the SQL expression that reads that clock.
    """

    _is_skipped = "id || '@' || last_seq IN (SELECT json_array_elements_text(CAST(? AS JSON)))"
    _lock = " FOR UPDATE SKIP LOCKED"

    def __init__(
        self,
        database: RawDatabase,
        *,
        boottime_s: Callable[[], float],
        is_dead: IsDead = assume_alive,
        on_release: OnRelease = ignore_release,
        now: str = "now()",
    ) -> None:
        super().__init__(database, boottime_s=boottime_s, is_dead=is_dead, on_release=on_release)
        self._heartbeats = Heartbeats(boottime_s)
        self._now = f"SELECT CAST(extract(epoch FROM {now}) * 1000000 AS BIGINT)"  # noqa: S608 (a constant or from a test)
        self._check_s = boottime_s() + _CHECK_EVERY_S

    def _now_us(self, raw: RawTransaction) -> int:
        row = raw.first(self._now)
        return int(row[0]) if row else 0

    def _left_s(self, lease: Lease, now_us: int, observer: Worker, asked_s: float) -> float | None:
        seen = self._heartbeats.see(lease, asked_s)
        if is_known_dead(lease.worker, observer, self._is_dead) or _was_restarted(lease.worker, observer):
            return 0
        if seen.silent_s >= lease.ttl_s:
            return 0
        is_hinted = 0 < lease.deadline_us - now_us <= lease.ttl_us
        return None if seen.has_changed or is_hinted else lease.ttl_s - seen.silent_s

    def _prefer_order(self, raw: RawTransaction) -> None:
        """See SqlLeases._prefer_order. A bitmap scan would collect and sort all goals of the range."""
        raw.execute("SET LOCAL enable_bitmapscan = off")

    def _forget(self, raw: RawTransaction, now_us: int) -> None:  # noqa: ARG002 (see _check_s)
        """Delete leases that this process has seen unchanged for an hour; checks once a minute."""
        asked_s = self._boottime_s()
        if asked_s < self._check_s:
            return
        self._check_s = asked_s + _CHECK_EVERY_S
        leases = [lease_of(row) for row in raw.execute(LEASES).fetchall()]
        for lease in leases:
            if self._heartbeats.see(lease, asked_s).silent_s >= max(_FORGOTTEN_AFTER_S, lease.ttl_s):
                raw.execute(_FORGET, lease.worker.id, *lease.sign)
        self._heartbeats.forget_others({lease.worker.id for lease in leases})


def _was_restarted(owner: Worker, observer: Worker) -> bool:
    """Return whether the machine of a worker was rebooted, as seen by an observer on the same machine."""
    is_same_place = (owner.host, owner.home_id) == (observer.host, observer.home_id)
    return is_same_place and owner.boot_id != observer.boot_id
