"""Appends that share a transaction: each is answered as if it were alone, on every kind of store."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from perdure import Conflict, Invalid, PerdureError, failpoints
from perdure.kernel.events import Body, GoalBegun, MindSpec
from perdure.kernel.ports import Appended
from perdure.store.raw import RawTransaction
from perdure.store.transaction import Transaction
from tests.contracts.histories import HELLO, WORKER, History, Stored, begin, said, several

in_sql = pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
in_sqlite = pytest.mark.parametrize("place", ["sqlite"], indirect=True)


def asked(goal: History, *bodies: Body) -> Coroutine[Any, Any, Appended]:
    """An append that is made ready now, as if those before it were stored."""
    events = goal.next(*bodies)
    at = {"expected_seq": len(goal.events), "expected_hash": goal.last_hash}
    call = goal.store(events, **at, summary=goal.summary(events))
    goal.events += events
    return call


def counted(point: str) -> "tuple[list[str], Callable[[], None]]":
    hits: list[str] = []
    return hits, lambda: hits.append(point)


async def test_a_conflict_of_one_goal_leaves_the_rest_of_its_group_alone(stored: Stored) -> None:
    goals = await several(stored, 64)
    done = await asyncio.gather(
        *[goal.append(HELLO, epoch=9 if number % 8 == 0 else 1) for number, goal in enumerate(goals)],
        return_exceptions=True,
    )
    for number, (goal, result) in enumerate(zip(goals, done, strict=True)):
        assert isinstance(result, Conflict) if number % 8 == 0 else result == Appended(2, inbox_waiting=False)
        assert await stored.store.load(goal.goal_id) == goal.events


async def test_two_appends_of_one_goal_in_one_group_are_done_in_order(stored: Stored) -> None:
    goals = await several(stored, 3)
    calls = [asked(goal, HELLO) for goal in goals for _ in range(3)]
    assert [result.seq for result in await asyncio.gather(*calls)] == [2, 3, 4] * 3
    for goal in goals:
        assert await stored.store.load(goal.goal_id) == goal.events


async def test_a_new_goal_and_what_follows_it_may_share_a_group(stored: Stored) -> None:
    other = await begin(stored, "other")
    goal = History(stored, "g")
    calls = [asked(goal, GoalBegun("echo", MindSpec("command"))), asked(goal, HELLO), other.append(HELLO)]
    assert [result.seq for result in await asyncio.gather(*calls)] == [1, 2, 2]
    assert said(await stored.store.load("g")) == [1, 2]


async def test_what_is_taken_and_what_is_not_there_share_a_group(stored: Stored) -> None:
    goals = await several(stored, 4)
    for goal in goals[:2]:
        await stored.store.post(goal.goal_id, "signal", {}, key="k")
    taken = [(await stored.store.inbox(goal.goal_id))[0].id for goal in goals[:2]]
    done = await asyncio.gather(
        goals[0].append(HELLO, key="k", taken=[taken[0]]),
        goals[1].append(HELLO, taken=[taken[0]]),
        goals[2].append(HELLO),
        goals[3].fork("f", 1),
        return_exceptions=True,
    )
    assert [type(result).__name__ for result in done] == ["Appended", "Conflict", "Appended", "History"]
    assert [len(await stored.store.inbox(goal.goal_id)) for goal in goals[:2]] == [0, 1]
    for goal in goals:
        assert await stored.store.load(goal.goal_id) == goal.events


@in_sql
@pytest.mark.parametrize("wrong", [{"hash": b"too short"}, {"id": "no uuid"}, {"iteration": 2**70}], ids=str)
async def test_a_bad_append_fails_alone_and_the_others_of_its_group_are_stored(
    stored: Stored, wrong: dict[str, Any]
) -> None:
    goals = await several(stored, 8)
    bad = goals.pop(3)
    calls = [asked(goal, HELLO) for goal in goals]
    calls.insert(3, bad.store([replace(event, **wrong) for event in bad.next(HELLO)], summary=bad.summary(())))
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(done.pop(3), Invalid | OverflowError | TypeError)
    assert done == [Appended(2, inbox_waiting=False)] * 7
    await bad.append(HELLO)
    for goal in (*goals, bad):
        assert await stored.store.load(goal.goal_id) == goal.events


async def test_a_key_is_answered_from_within_its_group(stored: Stored) -> None:
    goal, other = await begin(stored), await begin(stored, "other")
    events, different = goal.next(HELLO), goal.next(HELLO)
    calls = [goal.store(events, key="k"), other.append(HELLO), goal.store(events, key="k")]
    done = await asyncio.gather(*calls, goal.store(different, key="k"), return_exceptions=True)
    assert done[:3] == [Appended(2, inbox_waiting=False)] * 3
    assert isinstance(done[3], Conflict)
    assert "other events" in str(done[3])
    assert await stored.store.load("g") == [*goal.events, *events]


async def test_a_key_of_the_history_fails_alone(stored: Stored) -> None:
    goals = await several(stored, 4)
    for goal in goals:
        await goal.append(HELLO, key="k")
    done = await asyncio.gather(
        goals[0].append(HELLO, key="k"), *[goal.append(HELLO) for goal in goals[1:]], return_exceptions=True
    )
    assert isinstance(done[0], Conflict)
    assert "other events" in str(done[0])
    assert done[1:] == [Appended(3, inbox_waiting=False)] * 3


async def test_a_waiter_that_was_cancelled_does_not_break_its_group(stored: Stored) -> None:
    goals = await several(stored, 8)
    tasks = [asyncio.ensure_future(goal.append(HELLO)) for goal in goals]
    await asyncio.sleep(0)
    tasks[2].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [result for n, result in enumerate(done) if n != 2] == [Appended(2, inbox_waiting=False)] * 7
    assert [len(await stored.store.load(goal.goal_id)) for n, goal in enumerate(goals) if n != 2] == [2] * 7
    assert len(await stored.store.load(goals[2].goal_id)) in (1, 2)


@in_sql
async def test_goals_in_lockstep_share_their_flushes(stored: Stored) -> None:
    goals = await several(stored, 64)
    groups, count = counted("group")
    with failpoints.armed("store.append.after", count):
        for _ in range(20):
            await asyncio.gather(*[goal.append(HELLO) for goal in goals])
    assert len(groups) / (64 * 20) <= 0.05


@in_sql
async def test_one_goal_costs_one_commit_per_append_and_nothing_else(stored: Stored) -> None:
    goal = await begin(stored)
    groups, count = counted("group")
    others, count_others = counted("other")
    with failpoints.armed("store.append.after", count), failpoints.armed("store.commit.after", count_others):
        for _ in range(10):
            await goal.append(HELLO)
    assert (len(groups), len(others)) == (10, 0)


@in_sql
async def test_a_relational_write_is_done_between_the_groups_around_it(stored: Stored) -> None:
    goals = await several(stored, 4)
    assert stored.database is not None
    seen: list[int] = []

    def count_events(tx: Transaction) -> None:
        seen.append(tx.scalar("SELECT count(*) FROM events"))

    def count_raw(raw: RawTransaction) -> None:
        seen.append((raw.first("SELECT count(*) FROM events") or (0,))[0])

    await asyncio.gather(
        *[goal.append(HELLO) for goal in goals[:2]],
        stored.database.write(count_events),
        goals[2].append(HELLO),
        stored.database.write_raw(count_raw),
        goals[3].append(HELLO),
    )
    assert seen == [6, 7]


@in_sqlite
async def test_one_goal_alone_is_written_where_it_runs_and_several_on_the_writers_thread(stored: Stored) -> None:
    threads: list[str] = []
    goal = await begin(stored)
    with failpoints.armed("store.append.before", lambda: threads.append(threading.current_thread().name)):
        await goal.append(HELLO)
        other = await begin(stored, "other")
        await goal.append(HELLO)
        await other.append(HELLO, release=True)
        await goal.append(HELLO)
        await stored.leases.release("g", WORKER, 1)
    assert [name == "MainThread" for name in threads] == [True, False, False, False, True]
    for history in (goal, other):
        assert await stored.store.load(history.goal_id) == history.events


async def test_one_who_only_appends_does_not_keep_the_loop_for_itself(stored: Stored) -> None:
    if stored.database is None:
        pytest.skip("memory has nothing to wait for")
    goal = await begin(stored)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    for _ in range(40):
        await goal.append(HELLO)
    beside.cancel()
    assert turns >= 4


@in_sqlite
async def test_a_conflict_is_the_same_where_it_runs_and_on_the_writers_thread(stored: Stored) -> None:
    goal = await begin(stored)
    answers = []
    for _ in range(2):
        with pytest.raises(PerdureError) as refused:
            await goal.append(HELLO, epoch=2)
        answers.append(str(refused.value))
        await begin(stored, f"other{len(answers)}")
    assert answers[0] == answers[1]


@in_sql
async def test_appends_of_several_event_loops_are_answered_each_on_its_own(stored: Stored) -> None:
    goals = [await begin(stored, f"g{number}") for number in range(4)]

    async def append_all(goal: History) -> None:
        for _ in range(20):
            await goal.append(HELLO)

    await asyncio.gather(*[asyncio.to_thread(asyncio.run, append_all(goal)) for goal in goals])
    for goal in goals:
        assert await stored.store.load(goal.goal_id) == goal.events
        assert said(goal.events) == list(range(1, 22))


@in_sql
async def test_an_event_loop_that_is_blocked_holds_up_no_append_of_another(stored: Stored) -> None:
    theirs, ours, third = [await begin(stored, name) for name in ("theirs", "ours", "third")]
    has_asked, goes_on = threading.Event(), threading.Event()

    async def ask_and_block() -> None:
        append = asyncio.create_task(theirs.append(HELLO))
        await asyncio.sleep(0)  # the append is in a group by now, which its loop has not handed over yet
        has_asked.set()
        goes_on.wait(20)
        await append

    blocked = asyncio.create_task(asyncio.to_thread(asyncio.run, ask_and_block()))
    try:
        await asyncio.to_thread(has_asked.wait, 20)
        async with asyncio.timeout(10):
            await asyncio.gather(ours.append(HELLO), third.append(HELLO))
        assert not goes_on.is_set()
    finally:
        goes_on.set()
        await blocked
    assert await stored.store.load("theirs") == theirs.events
