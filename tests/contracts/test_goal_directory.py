"""The contract of `GoalDirectory`: the same in memory, on SQLite and on PostgreSQL."""

from dataclasses import replace

import pytest

from perdure import Conflict, NotFound
from perdure.kernel.events import (
    GoalBegun,
    MindSpec,
)
from perdure.kernel.ports import GoalFilter
from tests.contracts.histories import HELLO, NOW, History, Stored, begin, end, put


async def test_a_start_key_starts_one_goal(stored: Stored) -> None:
    first = History(stored, "first")
    begun = first.next(GoalBegun("echo", MindSpec("command")))
    await first.store(begun, summary=replace(first.summary(begun), start_key="k"))
    second = History(stored, "second")
    begun = second.next(GoalBegun("echo", MindSpec("command")))
    with pytest.raises(Conflict, match="The start key 'k' is already used by another goal"):
        await second.store(begun, summary=replace(second.summary(begun), start_key="k"))
    found = await stored.store.started("k")
    assert found is not None
    assert found.goal_id == "first"
    assert await stored.store.started("other") is None
    with pytest.raises(NotFound):
        await stored.store.find("second")


async def test_a_start_key_is_kept_with_the_goal_whatever_is_appended(stored: Stored) -> None:
    goal = History(stored, "g")
    begun = goal.next(GoalBegun("echo", MindSpec("command")))
    await goal.store(begun, summary=replace(goal.summary(begun), start_key="k"))
    goal.events += begun
    await end(goal)
    assert (await stored.store.find("g")).start_key == "k"


async def test_the_start_key_of_a_deleted_goal_is_free_again(stored: Stored) -> None:
    goal = History(stored, "g")
    begun = goal.next(GoalBegun("echo", MindSpec("command")))
    await goal.store(begun, summary=replace(goal.summary(begun), start_key="k"))
    goal.events += begun
    await end(goal)
    await stored.store.delete("g")
    assert await stored.store.started("k") is None
    other = History(stored, "h")
    begun = other.next(GoalBegun("echo", MindSpec("command")))
    await other.store(begun, summary=replace(other.summary(begun), start_key="k"))
    found = await stored.store.started("k")
    assert found is not None
    assert found.goal_id == "h"


async def test_goals_whose_timer_is_due_come_the_longest_due_first(stored: Stored) -> None:
    for name, due_us in (("late", NOW + 9), ("second", NOW + 2), ("first", NOW + 1), ("none", None)):
        goal = await begin(stored, name)
        made = goal.next(HELLO)
        summary = replace(goal.summary(made), status="waiting", waiting_for="timer", due_us=due_us)
        await goal.store(made, summary=summary, release=True)
        goal.events += made
    assert [goal.goal_id for goal in await stored.store.due(NOW + 5)] == ["first", "second"]
    assert [goal.goal_id for goal in await stored.store.due(NOW + 5, limit=1)] == ["first"]
    (first,) = await stored.store.due(NOW + 5, limit=1)
    assert [goal.goal_id for goal in await stored.store.due(NOW + 5, after=first)] == ["second"]
    assert (await stored.store.find("late")).due_us == NOW + 9
    await goal.append(HELLO)
    assert await stored.store.due(NOW) == []


async def test_goals_that_are_due_are_paged_through_though_they_continue_meanwhile(stored: Stored) -> None:
    goals = {}
    for name in "abcde":
        goals[name] = goal = await begin(stored, name)
        made = goal.next(HELLO)
        await goal.store(made, summary=replace(goal.summary(made), status="waiting", waiting_for="timer", due_us=NOW))
        goal.events += made
    seen: list[str] = []
    last = None
    while page := await stored.store.due(NOW, limit=2, after=last):
        seen += [summary.goal_id for summary in page]
        last = page[-1]
        await goals[last.goal_id].append(HELLO)
    assert seen == list("abcde")


async def test_a_goal_that_was_woken_stays_due_while_it_is_open(stored: Stored) -> None:
    goal = await begin(stored)
    for _ in range(3):
        made = goal.next(HELLO)
        await goal.store(made, summary=replace(goal.summary(made), due_us=NOW))
        goal.events += made
        assert [(found.goal_id, found.status) for found in await stored.store.due(NOW)] == [("g", "open")]
    await end(goal)
    assert await stored.store.due(NOW) == []


async def test_goals_are_listed_by_whose_they_are(stored: Stored) -> None:
    for name in "ab":
        await begin(stored, name)
    goal = await begin(stored, "c", release=True)
    goal.epoch = await stored.leases.claim("c", goal.worker, "server")
    assert [each.goal_id for each in await stored.store.list_goals(where=GoalFilter(queue="server"))] == ["c"]
    assert [each.goal_id for each in await stored.store.list_goals(where=GoalFilter("open", "cli"))] == ["b", "a"]
    made = goal.next(HELLO)
    await goal.store(made, summary=replace(goal.summary(made), status="waiting", waiting_for="timer", due_us=NOW))
    assert [each.goal_id for each in await stored.store.due(NOW, queue="server")] == ["c"]
    assert await stored.store.due(NOW, queue="cli") == []


async def test_a_goal_that_is_begun_for_a_server_is_the_servers(stored: Stored) -> None:
    goal = await begin(stored, "a")
    made = goal.next(HELLO)
    other = replace(goal.summary(made), queue="server")
    await goal.store(made, summary=other)
    assert (await stored.store.find("a")).queue == "cli"  # whose it is, only a start or a claim says


async def test_the_queue_counts_what_no_worker_owns(stored: Stored) -> None:
    await put(stored, "first")
    await put(stored, "second")
    await put(stored, "held", release=False)
    await put(stored, "terminal", "cli")
    assert await stored.store.count_queued(queue="server") == 2
    await begin(stored, "g")
    assert await stored.store.count_queued(queue="cli") == 1
