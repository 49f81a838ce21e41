"""Goals in PostgreSQL."""

from collections.abc import Iterator, Sequence

import orjson

from perdure.kernel.ports import Appended, Worker
from perdure.store.goals.append import Append
from perdure.store.goals.leases import SqlLeases
from perdure.store.goals.rows import id_bytes
from perdure.store.goals.sql_state_store import SqlStateStore
from perdure.store.goals.swap import Answer, Appends, first_answer
from perdure.store.raw import RawDatabase, RawTransaction

_ADVANCE_ALL = """
WITH asked AS (
    SELECT * FROM json_to_recordset(CAST(? AS JSON)) AS asked (
        n INT, goal TEXT, expected BIGINT, expected_hash TEXT, epoch BIGINT, status TEXT, reason TEXT,
        waiting_for TEXT, due_at BIGINT, steps BIGINT,
        cost_usd DOUBLE PRECISION, updated_at BIGINT, last_seq BIGINT, last_hash TEXT, release BOOLEAN, ends BOOLEAN)
), swapped AS (
    UPDATE goals SET status = asked.status, reason = asked.reason, waiting_for = asked.waiting_for,
        due_at = asked.due_at,
        steps = asked.steps, cost_usd = asked.cost_usd, updated_at = asked.updated_at, last_seq = asked.last_seq,
        last_hash = coalesce(decode(asked.last_hash, 'hex'), goals.last_hash),
        worker = CASE WHEN asked.release AND (asked.ends OR goals.inbox_count = 0) THEN NULL ELSE goals.worker END
    FROM asked
    WHERE goals.id = asked.goal AND goals.last_seq = asked.expected AND goals.epoch = asked.epoch
        AND goals.last_hash = decode(asked.expected_hash, 'hex')
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
"""The events of a goal whose swap touched no row join nothing, and are left out."""


class PostgresAppends(Appends):
    """Appends to histories in PostgreSQL: those that only move a goal on are one statement. See Work."""

    def is_single(self, items: Sequence[Append]) -> bool:
        """See Work.is_single."""
        return all(append.is_plain for append in items) and len({append.goal_id for append in items}) == len(items)

    def together(self, raw: RawTransaction, items: Sequence[Append]) -> list[Answer]:
        """See Work.together."""
        return [answer for part in _one_of_each_goal(items) for answer in self._all(raw, part)]

    def _all(self, raw: RawTransaction, items: Sequence[Append]) -> Iterator[Answer]:
        """Do appends of as many goals, first those that need several statements."""
        others = iter(super().together(raw, [append for append in items if not append.is_plain]))
        plain = [append for append in items if append.is_plain]
        moved = iter(_advance_all(raw, plain) if plain else ())
        return (next(moved) if append.is_plain else next(others) for append in items)


def _one_of_each_goal(items: Sequence[Append]) -> Iterator[list[Append]]:
    """Split appends, without changing their order, so that no part has two of one goal: an UPDATE moves a row once."""
    part: dict[str, Append] = {}
    for append in items:
        if append.goal_id in part:
            yield list(part.values())
            part = {}
        part[append.goal_id] = append
    yield list(part.values())


def _advance_all(raw: RawTransaction, appends: Sequence[Append]) -> list[Answer]:
    in_order = [(n, append) for n, append in enumerate(appends) if append.is_in_order]
    asked = orjson.dumps([_asked(n, append) for n, append in in_order]).decode()
    events = orjson.dumps([event for n, append in in_order for event in _events(n, append)]).decode()
    moved = dict(raw.execute(_ADVANCE_ALL, asked, events).fetchall())
    return [
        Appended(append.seq, inbox_waiting=moved[n] > 0) if n in moved else first_answer(raw, append)
        for n, append in enumerate(appends)
    ]


def _asked(n: int, append: Append) -> dict[str, object]:
    summary = append.summary
    return {
        "n": n,
        "goal": append.goal_id,
        "expected": append.expected_seq,
        "expected_hash": append.expected_hash.hex(),
        "epoch": append.epoch,
        "status": summary.status,
        "reason": summary.reason,
        "waiting_for": summary.waiting_for,
        "due_at": summary.due_us,
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
    """The histories of goals in PostgreSQL. See StateStore."""

    def __init__(self, database: RawDatabase) -> None:
        super().__init__(database, PostgresAppends())


class PostgresLeases(SqlLeases):
    """The leases in PostgreSQL, on the server's clock alone. See Leases."""

    def _now_us(self, raw: RawTransaction) -> int:
        row = raw.first("SELECT CAST(extract(epoch FROM now()) * 1000000 AS BIGINT)")
        return int(row[0]) if row else 0

    def _has_clock_of(self, owner: Worker, claimant: Worker) -> bool:  # noqa: ARG002 (all read the server's)
        return True
