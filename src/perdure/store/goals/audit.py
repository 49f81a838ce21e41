"""Reads the histories of goals as rows, in pages, for the verification of any number of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.kernel.ports import Event, ForkedFrom, Summary
from perdure.store.goals.append_sql import hash_at
from perdure.store.goals.rows import BY_ID, events_of, summary_of
from perdure.store.raw import RawTransaction

_ROW = (
    "SELECT goal_no, id, last_seq, last_hash, forked_from_id, forked_from_seq,"
    " (SELECT max(seq) FROM events WHERE events.goal_no = goals.goal_no)"
    " FROM goals WHERE deleted_at IS NULL AND goal_no > ? ORDER BY goal_no LIMIT ?"
)
_NEWEST = "SELECT goal_no FROM goals WHERE deleted_at IS NULL AND goal_no > 0 ORDER BY goal_no DESC LIMIT ?"
_EVENTS = (
    "SELECT seq, id, type, iteration, timestamp, payload, hash, v FROM events"
    " WHERE goal_no = ? AND seq > ? ORDER BY seq LIMIT ?"
)
_INBOX = (
    "SELECT inbox_count, (SELECT count(*) FROM inbox WHERE inbox.goal_no = goals.goal_no)"
    " FROM goals WHERE id = ? AND deleted_at IS NULL"
)


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """The history of a goal as described by its row, with the seq of its newest event."""

    goal_no: int
    goal_id: str
    last_seq: int
    last_hash: bytes
    forked_from: ForkedFrom | None
    newest_seq: int | None


def count_histories(raw: RawTransaction) -> int:
    """Return the number of goals."""
    row = raw.first("SELECT count(*) FROM goals WHERE deleted_at IS NULL")
    return int(row[0]) if row else 0


def histories_after(raw: RawTransaction, goal_no: int, limit: int) -> list[HistoryRow]:
    """Return the next goals after a number, in order."""
    return [
        HistoryRow(no, goal_id, last_seq, last_hash, None if origin_id is None else ForkedFrom(origin_id, seq), newest)
        for no, goal_id, last_seq, last_hash, origin_id, seq, newest in raw.execute(_ROW, goal_no, limit).fetchall()
    ]


def newest_histories(raw: RawTransaction, limit: int) -> list[HistoryRow]:
    """Return the newest goals."""
    numbers: Sequence[int] = [row[0] for row in raw.execute(_NEWEST, limit).fetchall()]
    return histories_after(raw, min(numbers) - 1, limit) if numbers else []


def own_events(raw: RawTransaction, row: HistoryRow, after: int, limit: int) -> list[Event]:
    """Return the next events of a goal after a seq, without those of its parents."""
    return events_of(row.goal_id, raw.execute(_EVENTS, row.goal_no, after, limit).fetchall())


def is_there(raw: RawTransaction, goal_id: str) -> bool:
    """Return whether a goal exists and was not deleted."""
    return raw.first("SELECT 1 FROM goals WHERE id = ? AND deleted_at IS NULL", goal_id) is not None


def row_of(raw: RawTransaction, goal_id: str) -> Summary | None:
    """Return the row of a goal; None if it was deleted."""
    row = raw.first(BY_ID, goal_id)
    return None if row is None else summary_of(row)


def inbox_counts(raw: RawTransaction, goal_id: str) -> tuple[int, int] | None:
    """Return the size of an inbox as stored in the row of the goal and as counted; None if the goal was deleted."""
    row = raw.first(_INBOX, goal_id)
    return None if row is None else (int(row[0]), int(row[1]))


def hash_before(raw: RawTransaction, row: HistoryRow, after: int) -> bytes | None:
    """Return the hash of the event at a seq of a goal, which may be one of its parents'."""
    return hash_at(raw, ForkedFrom(row.goal_id, after))
