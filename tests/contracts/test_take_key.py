"""A fork that takes the start key of a goal: the key moves with the append that creates the fork, or not at all."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from perdure import Conflict, Invalid, NotFound
from perdure.kernel.events import ForkedFrom, GoalBegun, MindSpec, Termination
from perdure.kernel.ports import GoalFilter
from tests.contracts.histories import HELLO, History, Stored, end

BEGUN = GoalBegun("echo", MindSpec("command"))


async def keyed(stored: Stored, goal_id: str = "g", key: str = "k") -> History:
    """Make a goal that a key has started."""
    goal = History(stored, goal_id)
    made = goal.next(BEGUN)
    await goal.store(made, summary=replace(goal.summary(made), start_key=key))
    goal.events += made
    return goal


async def take(goal: History, fork_id: str, seq: int = 1, key: str = "k", **options: Any) -> History:
    """Fork a goal at an event, and take the key of the goal."""
    fork = History(goal.stored, fork_id, events=goal.events[:seq])
    origin = ForkedFrom(fork.events[-1].goal_id, seq)
    made = fork.next(GoalBegun("fork", MindSpec("command"), forked_from=origin))
    asked = {"takes_key_of": goal.goal_id} | options
    await fork.store(made, summary=replace(fork.summary(made), start_key=key), **asked)
    fork.events += made
    return fork


async def owners(stored: Stored, *goal_ids: str, key: str = "k") -> tuple[str | None, list[str]]:
    """Return the goal that a key names, and which of some goals have it in their rows."""
    found = await stored.store.started(key)
    rows = [await stored.store.find(goal_id) for goal_id in goal_ids]
    return None if found is None else found.goal_id, [row.goal_id for row in rows if row.start_key == key]


@pytest.mark.parametrize("status", ["open", "done", "failed"])
async def test_a_key_moves_to_the_fork_whether_the_goal_is_open_or_has_ended(stored: Stored, status: str) -> None:
    goal = await keyed(stored)
    if status != "open":
        await goal.append(Termination(status))  # type: ignore[arg-type]
    before = await stored.store.find("g")
    await take(goal, "f")
    assert await owners(stored, "g", "f") == ("f", ["f"])
    assert await stored.store.find("g") == replace(before, start_key=None)
    assert await stored.store.load("g") == goal.events


async def test_the_worker_of_the_goal_keeps_it_and_the_key_does_not_come_back(stored: Stored) -> None:
    goal = await keyed(stored)
    fork = await take(goal, "f")
    await goal.append(HELLO)
    await fork.append(HELLO)
    assert (await stored.store.find("g")).worker == goal.worker.id
    await end(goal)
    assert await owners(stored, "g", "f") == ("f", ["f"])


async def test_of_forks_that_take_the_same_key_at_once_one_is_created(stored: Stored) -> None:
    goal = await keyed(stored)
    names = [f"f{number}" for number in range(4)]
    done = await asyncio.gather(*(take(goal, name) for name in names), return_exceptions=True)
    (winner,) = [each.goal_id for each in done if isinstance(each, History)]
    refused = [each for each in done if isinstance(each, Conflict)]
    assert len(refused) == 3
    assert all("no longer belongs to g" in each.detail for each in refused)
    assert await owners(stored, "g", winner) == (winner, [winner])
    assert {goal.goal_id for goal in await stored.store.list_goals()} == {"g", winner}


async def test_a_fork_that_cannot_be_created_leaves_the_key(stored: Stored) -> None:
    goal, other = await keyed(stored), await keyed(stored, "other", key="its own")
    with pytest.raises(Conflict, match="The goal other already exists"):
        await take(goal, "other")
    with pytest.raises(NotFound, match="no event 9"):
        fork = History(stored, "f", events=goal.events)
        made = fork.next(GoalBegun("fork", MindSpec("command"), forked_from=ForkedFrom("g", 9)))
        moved = [replace(event, seq=10) for event in made]
        summary = replace(fork.summary(made), start_key="k")
        await fork.store(moved, summary=summary, expected_seq=9, takes_key_of="g")
    assert await owners(stored, "g", "other") == ("g", ["g"])
    assert await stored.store.load("other") == other.events


async def test_a_goal_that_was_deleted_has_no_key_to_take(stored: Stored) -> None:
    goal = await keyed(stored)
    await end(goal)
    await stored.store.delete("g")
    with pytest.raises(NotFound):
        await take(goal, "f")
    assert await stored.store.started("k") is None


async def test_a_fork_that_inherited_its_events_gives_its_own_key(stored: Stored) -> None:
    goal = await keyed(stored)
    first = await take(goal, "first")
    await first.append(HELLO)
    inherited = await take(first, "second", seq=1)
    assert inherited.events[0].goal_id == "g"
    assert await owners(stored, "g", "first", "second") == ("second", ["second"])
    await end(first)
    await stored.store.delete("first")
    with pytest.raises(NotFound, match="no goal first"):
        await take(first, "third", seq=1)


async def test_only_the_key_that_the_goal_has_can_be_taken_and_only_by_a_new_goal(stored: Stored) -> None:
    goal = await keyed(stored)
    with pytest.raises(Conflict, match="'another' no longer belongs to g"):
        await take(goal, "f", key="another")
    with pytest.raises(Conflict, match="is already used by another goal"):
        await take(goal, "f", takes_key_of=None)
    with pytest.raises(Invalid, match="Only a new goal"):
        await goal.append(HELLO, takes_key_of="g")
    assert await owners(stored, "g") == ("g", ["g"])


async def test_the_same_call_with_a_key_of_its_own_creates_one_fork(stored: Stored) -> None:
    goal = await keyed(stored)
    fork = History(stored, "f", events=goal.events[:1])
    made = fork.next(GoalBegun("fork", MindSpec("command"), forked_from=ForkedFrom("g", 1)))
    summary = replace(fork.summary(made), start_key="k")
    first = await fork.store(made, summary=summary, key="call", takes_key_of="g")
    assert await fork.store(made, summary=summary, key="call", takes_key_of="g") == first
    assert await owners(stored, "g", "f") == ("f", ["f"])
    posted = await stored.store.posted_as("f", "call")
    assert posted is not None
    assert posted[0] == "goal"


async def test_the_forks_of_a_goal_are_listed(stored: Stored) -> None:
    goal = await keyed(stored)
    await goal.fork("f1", 1)
    await (await goal.fork("f2", 1)).fork("f3", 2)
    for origin, forks in (("g", ["f2", "f1"]), ("f2", ["f3"]), ("f3", [])):
        found = await stored.store.list_goals(where=GoalFilter(forked_from=origin))
        assert [fork.goal_id for fork in found] == forks
