"""Verifies the hashes and rows of histories in a database: of all histories, or of a sample."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from perdure.errors import Damaged, NotFound
from perdure.kernel.events import NO_HASH, Event
from perdure.kernel.fold import fold
from perdure.kernel.history.replay import RESTORE, damaged_event, require_same_row, require_unchanged
from perdure.store.client import DatabaseClient
from perdure.store.goals.append import lost_origin
from perdure.store.goals.audit import (
    HistoryRow,
    count_histories,
    hash_before,
    histories_after,
    inbox_counts,
    is_there,
    newest_histories,
    own_events,
    row_of,
)

_SINCE = 2
"""The first version of the schema with goals."""
_GOALS = 200
_EVENTS = 100
_SAMPLE = 20
_SAMPLE_EVENTS = 1_000
_UNREADABLE = ("the table goals ", "the table events ", "the column goals.", "the column events.")
"""The prefixes of problems because of which no history can be read."""

Progress = Callable[[int, int], None]
"""Called with the number of checked histories, and the total."""


@dataclass(frozen=True)
class Sample:
    """The result of a check of some of the histories."""

    checked: int
    total: int
    problems: list[str]


async def verify_database(database: DatabaseClient, progress: Progress = lambda _done, _total: None) -> list[str]:
    """Read the whole database, check the hash of every event, and return the problems, one sentence each."""
    version = (await database.health()).version
    problems = await database.verify()
    if version < _SINCE or any(problem.startswith(_UNREADABLE) for problem in problems):
        return problems
    try:
        async for problem in _all_problems(database, progress):
            problems.append(problem)
    except Damaged as error:  # the list of goals itself cannot be read
        if error.detail not in problems:
            problems.append(error.detail)
    return problems


async def sample_histories(database: DatabaseClient) -> Sample:
    """Check the last events of the newest goals and of as many random goals.

    Raises: Damaged when the list of goals cannot be read.
    """
    total = await database.read_raw(count_histories)
    rows = {row.goal_no: row for row in await database.read_raw(partial(newest_histories, limit=_SAMPLE))}
    last = max(rows, default=0)
    for number in random.sample(range(last), min(_SAMPLE, last)):  # the goal after a random number
        found = await database.read_raw(partial(histories_after, goal_no=number, limit=1))
        rows |= {row.goal_no: row for row in found}
    checked = [await _problem(database, row, most=_SAMPLE_EVENTS) for row in rows.values()]
    return Sample(len(rows), total, [problem for problem in checked if problem is not None])


async def _all_problems(database: DatabaseClient, progress: Progress) -> AsyncIterator[str]:
    total = await database.read_raw(count_histories)
    done, last = 0, 0
    while page := await database.read_raw(partial(histories_after, goal_no=last, limit=_GOALS)):
        for row in page:
            problem = await _problem(database, row)
            if problem is not None:
                yield problem
            done, last = done + 1, row.goal_no
            progress(done, max(done, total))


async def _problem(database: DatabaseClient, row: HistoryRow, *, most: int | None = None) -> str | None:
    """Return the problem of a history; None if it was deleted meanwhile."""
    try:
        await _require_whole(database, row, most)
        if most is None:
            await _require_same_row(database, row)
    except Damaged as error:
        if await database.read_raw(partial(is_there, goal_id=row.goal_id)):
            return error.detail if row.goal_id in error.detail else f"{row.goal_id}: {error.detail}"
    return None


async def _require_whole(database: DatabaseClient, row: HistoryRow, most: int | None) -> None:
    """Verify the last events of a goal, page by page, without those inherited from a parent.

    Raises: Damaged
    """
    seq = row.forked_from.seq if row.forked_from is not None else 0
    if most is not None:
        seq = max(seq, row.last_seq - most)
    previous = await _hash_before(database, row, seq)
    while seq < row.last_seq:
        events = [event for event in await _page(database, row, seq, _EVENTS) if event.seq <= row.last_seq]
        if not events:
            raise damaged_event(row.goal_id, seq + 1, f"is missing: {_last(row)}")
        previous = require_unchanged(events, row.goal_id, after=seq, previous=previous)
        seq = events[-1].seq
    if previous != row.last_hash:
        raise damaged_event(
            row.goal_id, row.last_seq, "was changed: its hash differs from the one in the table `goals`"
        )
    if (row.newest_seq or 0) > row.last_seq:
        raise damaged_event(row.goal_id, row.last_seq + 1, f"is unexpected: {_last(row)}")


def _last(row: HistoryRow) -> str:
    return f"the table `goals` has {row.last_seq} as the last event of this goal"


async def _require_same_row(database: DatabaseClient, row: HistoryRow) -> None:
    """Check that the row of a goal equals its folded history, as `goal replay` does, and its inbox count is correct.

    The history is read after the row: if the goal runs meanwhile, only the events up to the row are folded.

    Raises: Damaged
    """
    counts = await database.read_raw(partial(inbox_counts, goal_id=row.goal_id))
    if counts is not None and counts[0] != counts[1]:
        raise Damaged(
            f"The row of {row.goal_id} has inbox_count {counts[0]}; its inbox has {counts[1]} rows. Each row is an"
            " answer, a signal or another request that the history does not have yet; with a wrong count, a worker may"
            f" overlook it. {RESTORE}."
        )
    summary = await database.read_raw(partial(row_of, goal_id=row.goal_id))
    if summary is None:
        return
    with suppress(NotFound):  # deleted meanwhile
        events = await database.state_store().load(row.goal_id, upto=summary.last_seq)
        require_same_row(fold(events), summary)


async def _hash_before(database: DatabaseClient, row: HistoryRow, seq: int) -> bytes:
    """Return the hash of the event before the first one to check.

    Raises: Damaged when that event, or the parent of a fork, is missing.
    """
    if seq == 0:
        return NO_HASH
    origin = row.forked_from
    if origin is not None and not await database.read_raw(partial(is_there, goal_id=origin.goal_id)):
        raise lost_origin(row.goal_id, origin.goal_id)
    found = await database.read_raw(partial(hash_before, row=row, after=seq))
    if found is None:
        raise damaged_event(row.goal_id, seq, f"is missing: {_last(row)}")
    return found


async def _page(database: DatabaseClient, row: HistoryRow, after: int, limit: int) -> list[Event]:
    """Read events; if some cannot be read, read one by one, so that the first of them is named.

    Raises: Damaged
    """
    try:
        return await database.read_raw(partial(own_events, row=row, after=after, limit=limit))
    except Damaged as error:
        if limit == 1:
            fault = error.detail.removesuffix(".")
            raise damaged_event(row.goal_id, after + 1, f"cannot be read: {fault}") from error
        return await _page(database, row, after, 1)
