"""The contract of `Queue`: the same in memory, on SQLite and on PostgreSQL."""

from dataclasses import replace

import pytest

from perdure.kernel.events import Ask, GoalBegun, MindSpec
from perdure.store.raw import RawTransaction
from tests.contracts.histories import OTHER, WORKER, History, Stored, begin, end

in_sqlite = pytest.mark.parametrize("place", ["sqlite"], indirect=True)


async def put(stored: Stored, goal_id: str, queue: str = "server", *, release: bool = True) -> History:
    """Make a goal of a queue, which no worker owns unless it is not released."""
    goal = History(stored, goal_id)
    events = goal.next(GoalBegun("echo", MindSpec("command")))
    await goal.store(events, summary=replace(goal.summary(events), queue=queue), release=release)
    goal.events += events
    return goal


async def unheld(stored: Stored, *held_by: str, limit: int = 50, after: str | None = None) -> list[str]:
    found = await stored.store.unheld(queue="server", held_by=held_by, limit=limit, after=after)
    return [goal.goal_id for goal in found]


async def test_open_goals_of_a_runner_come_the_oldest_first_and_page_by_page(stored: Stored) -> None:
    for name in ("b", "c", "a"):
        await put(stored, name)
    await put(stored, "terminal", "cli")
    assert await unheld(stored) == ["b", "c", "a"]
    assert await unheld(stored, limit=2) == ["b", "c"]
    assert await unheld(stored, limit=2, after="c") == ["a"]
    assert await unheld(stored, after="a") == []


async def test_goals_of_the_workers_that_are_named_are_left_out(stored: Stored) -> None:
    await put(stored, "theirs", release=False)
    await put(stored, "left", release=False)
    await stored.leases.claim("left", OTHER)
    await put(stored, "new")
    assert await unheld(stored) == ["theirs", "left", "new"]
    assert await unheld(stored, WORKER.id) == ["left", "new"]
    assert await unheld(stored, WORKER.id, OTHER.id) == ["new"]


async def test_goals_that_wait_or_have_ended_are_not_in_the_queue(stored: Stored) -> None:
    await end(await put(stored, "ended"))
    waits = await put(stored, "waits")
    await waits.append(Ask("a/1", "a", "Sure?", None))
    assert await unheld(stored) == []
    assert await stored.store.count_queued(queue="server") == 0


async def test_a_goal_that_waits_and_was_told_something_comes_first(stored: Stored) -> None:
    await put(stored, "older")
    waits = await put(stored, "waits")
    await waits.append(Ask("a/1", "a", "Sure?", None), release=True)
    await stored.store.post("waits", "signal", {}, key="k")
    assert await unheld(stored) == ["waits", "older"]
    assert await unheld(stored, limit=1) == ["waits"]
    assert await unheld(stored, after="older") == []


async def test_the_queue_counts_what_no_worker_owns(stored: Stored) -> None:
    await put(stored, "first")
    await put(stored, "second")
    await put(stored, "held", release=False)
    await put(stored, "terminal", "cli")
    assert await stored.store.count_queued(queue="server") == 2
    await begin(stored, "g")
    assert await stored.store.count_queued(queue="cli") == 1


@in_sqlite
async def test_a_look_at_a_long_queue_is_a_range_of_an_index(stored: Stored) -> None:
    from perdure.store.goals.rows import unheld_listing, unnoticed_listing

    queries = [unheld_listing("server", ["w"], None, 3), unnoticed_listing("server", ["w"], 3)]

    def explain(raw: RawTransaction) -> list[str]:
        plans = [raw.execute(f"EXPLAIN QUERY PLAN {statement}", *values).fetchall() for statement, values in queries]
        return [" ".join(row[3] for row in plan) for plan in plans]

    assert stored.database is not None
    first, second = await stored.database.read_raw(explain)
    assert "idx_goals_status" in first
    assert "TEMP B-TREE" not in first
    assert "SCAN goals" not in second
