"""Finds the goals with new events since a mark, including late events with lower numbers than events seen before.

SQLite commits transactions one at a time, so event numbers become visible in order. PostgreSQL does not: a transaction
takes numbers when it inserts, and makes them visible when it commits. So a lower number may become visible long after a
higher one. The delay has no bound, so re-reading a fixed number of the last events would miss some.

So a mark contains the highest visible number and the snapshot of the read: the running transactions, and the number of
the next transaction. Every append updates the row of its goal first, so it has a transaction number (xid) before it
takes event numbers. So if a transaction is running at a mark, and had not begun at the mark before, all its event
numbers are higher than the highest number of that earlier mark. That number is the floor of the transaction.

The next call reads all events above the mark. For each transaction that was running at the mark and has ended since, it
also reads the events with its xid (`xmin`) above its floor. A transaction that is still running is not read until it
ends, and then once. Appends must not use savepoints, because events inside a savepoint have another xid.

Transactions that are running at the first mark have no earlier mark. Their floor is `_FIRST_FLOOR_DISTANCE` numbers
below the highest number of the first mark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perdure.kernel.ports import ChangedGoals
from perdure.store.raw import RawTransaction, Values

NO_SNAPSHOT = "'1:1:'"
"""The snapshot of a database with only one writing transaction at a time."""
POSTGRES_SNAPSHOT = "CAST(txid_current_snapshot() AS TEXT)"
_FIRST_FLOOR_DISTANCE = 100_000
_NEWEST = (
    "SELECT {snapshot}, event_no, hash FROM (SELECT 1 AS one) AS one"
    " LEFT JOIN (SELECT event_no, hash FROM events ORDER BY event_no DESC LIMIT 1) AS newest ON one = 1"
)
_HASH = "SELECT hash FROM events WHERE event_no = ?"
_CHANGED = (
    "SELECT goals.id, max(seq) FROM events JOIN goals USING (goal_no)"
    " WHERE {condition} AND deleted_at IS NULL GROUP BY goals.id"
)
_NEW = "event_no > ?"
_LATE = "event_no > ? AND (event_no > ? OR CAST(CAST(events.xmin AS TEXT) AS BIGINT) IN ({xids}))"


@dataclass(frozen=True, order=True, slots=True)
class Mark:
    """The position up to which the events of a database were read."""

    event_no: int
    """The highest visible number; 0 if there was none."""
    event_hash: bytes = field(default=b"", compare=False)
    next_xid: int = field(default=1, compare=False)
    running: Mapping[int, int] = field(default_factory=dict, compare=False)
    """The running transactions, each with its floor: a number below those of all its events."""


def changed_goals(raw: RawTransaction, after: Mark | None, snapshot: str) -> ChangedGoals:
    """Return the goals that changed since a mark; `snapshot` is the SQL expression of the snapshot."""
    snapshot_text, event_no, event_hash = raw.first(_NEWEST.format(snapshot=snapshot)) or (None, None, None)
    highest, found_hash = event_no or 0, bytes(event_hash or b"")
    next_xid, running = _parse_snapshot(snapshot_text)
    if after is None or not _has_event_of(raw, after, highest, found_hash) or next_xid < after.next_xid:
        floors = dict.fromkeys(running, max(0, highest - _FIRST_FLOOR_DISTANCE))
        return ChangedGoals(Mark(highest, found_hash, next_xid, floors), is_reset=after is not None)
    mark = Mark(highest, found_hash, next_xid, {xid: after.running.get(xid, after.event_no) for xid in running})
    ended = [xid for xid in after.running if xid not in mark.running]
    if highest == after.event_no and not ended:
        return ChangedGoals(mark)
    statement, values = _query(after, ended)
    return ChangedGoals(mark, dict(map(tuple, raw.execute(statement, *values).fetchall())))


def _query(after: Mark, ended: Sequence[int]) -> tuple[str, Values]:
    """Return the query of events above a mark, and of events of transactions that have ended since."""
    if not ended:
        return _CHANGED.format(condition=_NEW), (after.event_no,)
    floor = min(after.running[xid] for xid in ended)
    condition = _LATE.format(xids=", ".join("?" * len(ended)))
    return _CHANGED.format(condition=condition), (floor, after.event_no, *(xid % 2**32 for xid in ended))


def _has_event_of(raw: RawTransaction, mark: Mark, highest: int, highest_hash: bytes) -> bool:
    """Return whether the event of a mark still exists unchanged, so that the database was not restored."""
    if mark.event_no in (0, highest):
        return mark.event_no == 0 or mark.event_hash == highest_hash
    row = raw.first(_HASH, mark.event_no)
    return row is not None and bytes(row[0]) == mark.event_hash


def _parse_snapshot(snapshot: str) -> tuple[int, list[int]]:
    """Return the number of the next transaction and the numbers of the running transactions."""
    _, next_xid, running = snapshot.split(":")
    return int(next_xid), [int(xid) for xid in running.split(",") if xid]
