"""The contract of what a server asks a `StateStore`: whose goals there are, what has changed, what was posted."""

from dataclasses import replace

from perdure.kernel.events import Signal, content_of
from perdure.kernel.ports import GoalFilter
from tests.contracts.histories import HELLO, NOW, Stored, begin


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


async def test_changes_name_the_goals_that_have_got_events_and_their_last_seq(stored: Stored) -> None:
    first = await begin(stored, "a")
    begun = await stored.store.changes(None)
    assert begun.goals == {}
    assert (await stored.store.changes(begun.mark)).goals == {}
    await first.append(HELLO, HELLO)
    await begin(stored, "b")
    found = await stored.store.changes(begun.mark)
    assert found.goals == {"a": 3, "b": 1}
    assert found.mark > begun.mark
    assert (await stored.store.changes(found.mark)).mark == found.mark


async def test_what_was_posted_under_a_key_is_found_in_the_inbox_and_in_the_history(stored: Stored) -> None:
    goal = await begin(stored)
    paid = Signal("paid", {"order": 7})
    assert await stored.store.posted_as("g", "k") is None
    await stored.store.post("g", "signal", content_of(paid), key="k")
    assert await stored.store.posted_as("g", "k") == ("signal", content_of(paid))
    (row,) = await stored.store.inbox("g")
    await goal.append(paid, key="k", taken=[row.id])
    assert await stored.store.posted_as("g", "k") == ("signal", content_of(paid))
    assert await stored.store.posted_as("g", "other") is None
    assert await stored.store.posted_as("nobody", "k") is None
