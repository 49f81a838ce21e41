"""Plain SQL on either database, and the rows of goals as the values that they stand for."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from perdure.errors import Invalid
from perdure.kernel.ports import Event, InboxRow, Parent, Status, Summary
from perdure.store.goals.append import Append

if TYPE_CHECKING:
    import sqlalchemy as sa

    from perdure.store.transaction import Transaction

_ALL = "goal_no > 0"
"""All numbers are; said so that SQLite goes by them instead of sorting."""
_BEFORE = "goal_no < (SELECT goal_no FROM goals WHERE id = ?)"
_SUMMARY = (
    "SELECT id, text, mind, status, created_at, updated_at, last_seq, steps, cost_usd, reason, waiting_for, bot,"
    " workdir, parent_id, parent_seq, runner, worker FROM goals WHERE deleted_at IS NULL"
)
BY_PREFIX = f"{_SUMMARY} AND substr(id, 1, ?) = ? ORDER BY length(id), goal_no DESC LIMIT 2"

Values = tuple[Any, ...]


def run(tx: "Transaction", statement: str, *values: Any) -> "sa.CursorResult[Any]":
    """Run a statement of plain SQL whose values stand as `?`."""
    return tx.connection.exec_driver_sql(_marked(tx, statement), values)


def first(tx: "Transaction", statement: str, *values: Any) -> Values | None:
    """Run a statement and return its first row."""
    row = run(tx, statement, *values).first()
    return None if row is None else tuple(row)


def run_many(tx: "Transaction", statement: str, rows: Sequence[Values]) -> None:
    """Run a statement once for each row of values."""
    tx.connection.exec_driver_sql(_marked(tx, statement), list(rows))


def _marked(tx: "Transaction", statement: str) -> str:
    """Write the places of values as the driver wants them."""
    return statement.replace("?", "%s") if tx.dialect == "postgresql" else statement


def listing(status: Status | None, before: str | None, limit: int) -> tuple[str, Values]:
    """Return the query of a list, newest first: one range of one index."""
    conditions: dict[str, Values] = {_ALL: ()} if before is None else {_BEFORE: (before,)}
    if status is not None:
        conditions["status = ?"] = (status,)
    values = [value for given in conditions.values() for value in given]
    return f"{_SUMMARY} AND {' AND '.join(conditions)} ORDER BY goal_no DESC LIMIT ?", (*values, limit)


def summary_of(row: Sequence[Any]) -> Summary:
    """Read a row of a list."""
    parent_id, parent_seq, runner, worker = row[-4:]
    parent = None if parent_id is None else Parent(parent_id, parent_seq)
    values: Values = (*row[:-4], parent, runner, worker)
    return Summary(*values)


def event_values(append: Append, goal_no: int) -> Iterator[Values]:
    """Give the rows of an append's events; its key stands on the last.

    Raises: Invalid
    """
    for event in append.events:
        try:
            event_id = bytes.fromhex(event.id.replace("-", ""))
        except ValueError as error:
            raise Invalid(f"The id of an event is a UUID, which {event.id!r} is not.") from error
        key = append.key if event.seq == append.seq else None
        yield (
            *(goal_no, event.seq, event_id, event.type, event.v, event.iteration),
            *(event.timestamp_us, event.payload, event.hash, key),
        )


def event_of(goal_id: str, row: Sequence[Any]) -> Event:
    """Read a row of events."""
    seq, event_id, *rest = row
    digits = event_id.hex()
    dashed = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return Event(goal_id, seq, dashed, *rest)


def inbox_row_of(row: Sequence[Any]) -> InboxRow:
    """Read a row of an inbox."""
    row_id, kind, payload, key, created_us = row
    return InboxRow(row_id, kind, orjson.loads(payload), key, created_us)
