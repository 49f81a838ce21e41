"""An append follows the event that its worker knows, and no other: also when the database went back in time."""

import asyncio
from typing import Any

import pytest

from perdure import Conflict
from perdure.kernel.events import ForkedFrom, GoalBegun, Message, MindSpec
from perdure.kernel.history.replay import require_unchanged
from perdure.kernel.ports import Event
from perdure.store.database import Database
from tests.contracts.histories import HELLO, OTHER, WORKER, History, Stored, begin, several
from tests.contracts.time_travel import put_back, taken_now

in_sql = pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
ELSE = b"e" * 32


@pytest.fixture
def database(stored: Stored) -> Database:
    assert stored.database is not None
    return stored.database


@pytest.mark.parametrize("options", [{}, {"release": True}, {"key": "k"}], ids=str)
async def test_an_append_behind_another_event_is_a_conflict(stored: Stored, options: dict[str, Any]) -> None:
    goal = await begin(stored, "g", HELLO)
    await goal.append(HELLO)
    with pytest.raises(Conflict, match="history of g was replaced .event 3 is not the one this worker wrote"):
        await goal.append(HELLO, expected_hash=ELSE, **options)
    assert await stored.store.load("g") == goal.events
    assert (await stored.store.find("g")).worker == WORKER.id


async def test_what_only_gives_back_or_takes_from_the_inbox_is_fenced_by_hash_too(stored: Stored) -> None:
    goal = await begin(stored)
    await stored.store.post("g", "signal", {}, key="k")
    (posted,) = await stored.store.inbox("g")
    for options in ({"release": True}, {"taken": [posted.id]}):
        with pytest.raises(Conflict, match="was replaced"):
            await goal.append(expected_hash=ELSE, **options)
    assert await stored.store.inbox("g") == [posted]
    await goal.append(taken=[posted.id], release=True)
    assert (await stored.store.find("g")).worker is None


@pytest.mark.parametrize("count", [1, 3], ids=["alone", "in a group"])
@pytest.mark.parametrize("options", [{}, {"release": True}, {"key": "k"}, {"taken": True}], ids=str)
async def test_an_append_with_the_epoch_before_a_claim_is_a_conflict_though_seq_and_hash_are_right(
    stored: Stored, options: dict[str, Any], count: int
) -> None:
    """The claimant has appended nothing: only the epoch tells the two owners apart."""
    goals = await several(stored, count)
    epochs = []
    for goal in goals:
        await goal.append(HELLO)
        epochs.append(await stored.leases.claim(goal.goal_id, OTHER))
        await stored.store.post(goal.goal_id, "signal", {}, key="posted")
    taken = [{"taken": [(await stored.store.inbox(goal.goal_id))[0].id]} for goal in goals]
    given = [each if "taken" in options else options for each in taken]
    refused = await asyncio.gather(
        *[goal.append(HELLO, **each) for goal, each in zip(goals, given, strict=True)], return_exceptions=True
    )
    assert [type(each) for each in refused] == [Conflict] * count
    assert all("has another owner" in str(each) for each in refused)
    for goal, epoch, each in zip(goals, epochs, given, strict=True):
        assert await stored.store.load(goal.goal_id) == goal.events
        assert (await stored.store.find(goal.goal_id)).worker == OTHER.id
        await goal.append(HELLO, epoch=epoch, **each)


async def test_a_new_goal_follows_nothing(stored: Stored) -> None:
    goal = History(stored, "g")
    with pytest.raises(Conflict, match="do not follow"):
        await goal.append(GoalBegun("echo", MindSpec("command")), expected_hash=ELSE)
    await goal.append(GoalBegun("echo", MindSpec("command")), expected_hash=bytes(32))


@pytest.mark.parametrize("seq", [1, 3], ids=["inherited", "its own"])
async def test_a_fork_follows_the_event_that_it_knows_of_its_parent(stored: Stored, seq: int) -> None:
    parent = await (await begin(stored, "g", HELLO)).fork("f", 2)
    fork = History(stored, "fork", events=parent.events[:seq])
    body = GoalBegun("fork", MindSpec("command"), forked_from=ForkedFrom("f", seq))
    with pytest.raises(Conflict, match=f"history of f was replaced .event {seq} "):
        await fork.append(body, expected_hash=ELSE)
    await fork.append(body)
    assert await stored.store.load("fork") == fork.events


@in_sql
@pytest.mark.parametrize("theirs", [0, 1, 2, 3])
async def test_a_worker_that_lived_on_while_the_database_went_back_cannot_append(
    stored: Stored, database: Database, theirs: int
) -> None:
    """The other worker has appended fewer events than the first, as many, or more: what is there is the other's."""
    goal = await begin(stored, release=True)
    before = await taken_now(database)
    goal.epoch = await stored.leases.claim("g", WORKER)
    await goal.append(Message("ours"))
    await goal.append(Message("ours"))
    await put_back(database, before)
    other = History(stored, "g", events=goal.events[:1], worker=OTHER)
    other.epoch = await stored.leases.claim("g", OTHER)
    for _ in range(theirs):
        await other.append(Message("theirs"))
    with pytest.raises(Conflict):
        await goal.append(HELLO)
    with pytest.raises(Conflict):
        await goal.append(release=True)
    await unchanged(stored, other.events)
    assert (await stored.store.find("g")).worker == OTHER.id


@in_sql
async def test_a_worker_whose_goal_went_back_and_was_not_claimed_again_cannot_append(
    stored: Stored, database: Database
) -> None:
    goal = await begin(stored)
    before = await taken_now(database)
    await goal.append(HELLO)
    await put_back(database, before)
    with pytest.raises(Conflict, match="history of g was replaced .event 2 "):
        await goal.append(HELLO)
    await unchanged(stored, goal.events[:1])


@in_sql
async def test_a_worker_that_appended_nothing_since_continues_where_the_database_went_back_to(
    stored: Stored, database: Database
) -> None:
    goal = await begin(stored)
    await put_back(database, await taken_now(database))
    await goal.append(HELLO)
    await unchanged(stored, goal.events)


@in_sql
async def test_an_epoch_that_a_database_has_forgotten_is_not_assigned_again(stored: Stored, database: Database) -> None:
    await begin(stored, release=True)
    before = await taken_now(database)
    epochs = set()
    for worker in (WORKER, OTHER, WORKER):
        epochs.add(await stored.leases.claim("g", worker))
        await put_back(database, before)
    assert len(epochs) == 3


async def unchanged(stored: Stored, events: list[Event]) -> None:
    loaded = await stored.store.load("g")
    assert loaded == events
    require_unchanged(loaded, "g")
