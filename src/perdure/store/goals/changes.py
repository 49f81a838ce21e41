"""Finds the goals that have got events since a mark, also events whose numbers are lower than those seen before.

SQLite commits one transaction after the other, so event numbers become visible in their order. PostgreSQL does not:
a transaction takes numbers when it inserts and shows them when it commits, so a lower number may appear at any time
after a higher one. How many may be late has no bound, and a window of the last so-many numbers misses the rest.

So a mark holds, beside the highest number that was visible, the snapshot it was read with: which transactions were
running, and the number of the next transaction. Every append changes the row of its goal first, and so has a
transaction number (xid) before it takes event numbers. That gives each running transaction a floor: when it was first
seen running, and had not begun at the mark before, all its event numbers are above the highest one of that mark. The
next call reads what is above the mark, and, for each transaction that was running and has ended since, the events that
carry its xid (`xmin`) from its floor on. A transaction that keeps running costs nothing until it ends, and is then read
once. Appends use no savepoint, which would give their events an xid of its own.

Transactions that run when the first mark is made have no such floor; they are looked for among the last `_FLOOR`
numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perdure.kernel.ports import ChangedGoals
from perdure.store.raw import RawTransaction, Values

NO_SNAPSHOT = "'1:1:'"
"""The snapshot of a database in which no two transactions write at once."""
POSTGRES_SNAPSHOT = "CAST(txid_current_snapshot() AS TEXT)"
_FLOOR = 100_000
_NEWEST = (
    "SELECT {snapshot}, event_no, hash FROM (SELECT 1 AS one) AS one"
    " LEFT JOIN (SELECT event_no, hash FROM events ORDER BY event_no DESC LIMIT 1) AS newest ON one = 1"
)
_HASH = "SELECT hash FROM events WHERE event_no = ?"
_CHANGED = (
    "SELECT goals.id, max(seq) FROM events JOIN goals USING (goal_no)"
    " WHERE {late} AND deleted_at IS NULL GROUP BY goals.id"
)
_NEW = "event_no > ?"
_LATE = "event_no > ? AND (event_no > ? OR CAST(CAST(events.xmin AS TEXT) AS BIGINT) IN ({xids}))"


@dataclass(frozen=True, order=True, slots=True)
class Mark:
    """How far the events of a database were read."""

    event_no: int
    """The highest number that was visible; 0 when there was none."""
    event_hash: bytes = field(default=b"", compare=False)
    next_xid: int = field(default=1, compare=False)
    running: Mapping[int, int] = field(default_factory=dict, compare=False)
    """The transactions that were running, each with a number below all of its events."""


def changed_goals(raw: RawTransaction, after: Mark | None, snapshot: str) -> ChangedGoals:
    """Return what has changed since a mark; `snapshot` is the SQL expression of the transaction's snapshot."""
    shown, event_no, event_hash = raw.first(_NEWEST.format(snapshot=snapshot)) or (None, None, None)
    highest, found_hash = event_no or 0, bytes(event_hash or b"")
    next_xid, running = _parts_of(shown)
    if after is None or not _is_of(raw, after, highest, found_hash) or next_xid < after.next_xid:
        floors = dict.fromkeys(running, max(0, highest - _FLOOR))
        return ChangedGoals(Mark(highest, found_hash, next_xid, floors), is_reset=after is not None)
    mark = Mark(highest, found_hash, next_xid, {xid: after.running.get(xid, after.event_no) for xid in running})
    ended = [xid for xid in after.running if xid not in mark.running]
    if highest == after.event_no and not ended:
        return ChangedGoals(mark)
    statement, values = _query(after, ended)
    return ChangedGoals(mark, dict(map(tuple, raw.execute(statement, *values).fetchall())))


def _query(after: Mark, ended: Sequence[int]) -> tuple[str, Values]:
    """Return the query of events above a mark, and of those of transactions that were running at it."""
    if not ended:
        return _CHANGED.format(late=_NEW), (after.event_no,)
    floor = min(after.running[xid] for xid in ended)
    late = _LATE.format(xids=", ".join("?" * len(ended)))
    return _CHANGED.format(late=late), (floor, after.event_no, *(xid % 2**32 for xid in ended))


def _is_of(raw: RawTransaction, mark: Mark, highest: int, highest_hash: bytes) -> bool:
    """Return whether a mark was made in this history of the database, and its event is still there."""
    if mark.event_no in (0, highest):
        return mark.event_no == 0 or mark.event_hash == highest_hash
    row = raw.first(_HASH, mark.event_no)
    return row is not None and bytes(row[0]) == mark.event_hash


def _parts_of(snapshot: str) -> tuple[int, list[int]]:
    """Return the number of the next transaction, and those of the running ones."""
    _, next_xid, running = snapshot.split(":")
    return int(next_xid), [int(xid) for xid in running.split(",") if xid]
