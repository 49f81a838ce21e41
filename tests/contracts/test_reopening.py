"""A failed goal is reopened by one worker at most, and nothing else that has ended can be."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from perdure import Conflict, NotFound
from perdure.errors import PerdureError
from perdure.kernel.events import GoalBegun, LimitRaised, MindSpec, ParentCall, Reopened, Termination, ToolError
from perdure.kernel.fold import BY_PARENT
from perdure.kernel.ports import Owned, Worker
from tests.contracts.histories import HELLO, OTHER, History, Stored, begin

FAILED = Termination("failed", "no")
THIRD = Worker("w3", "host", "home", "boot")


def reopened(history: History) -> Reopened:
    return Reopened("person", "again", ended_seq=len(history.events))


async def failed(stored: Stored, goal_id: str = "g") -> History:
    """A goal that has failed, and that nobody owns."""
    history = await begin(stored, goal_id)
    await history.append(FAILED, release=True)
    return history


async def claimed(stored: Stored, history: History, worker: Worker = OTHER) -> History:
    """The same goal, claimed to be reopened."""
    await stored.leases.renew(worker, 30)
    epoch = await stored.leases.claim(history.goal_id, worker, reopen=True)
    return History(stored, history.goal_id, epoch, [*history.events], worker)


async def test_a_failed_goal_that_was_claimed_for_it_is_reopened_and_continues(stored: Stored) -> None:
    history = await claimed(stored, await failed(stored))
    assert (await stored.store.find("g")).status == "failed"  # a claim alone changes nothing
    await history.append(reopened(history), HELLO)
    found = await stored.store.find("g")
    assert (found.status, found.reason, found.last_seq) == ("open", None, 4)
    assert [goal.goal_id for goal in await stored.store.list_goals()] == ["g"]
    await history.append(Termination("done"), release=True)
    assert (await stored.store.find("g")).status == "done"


@pytest.mark.parametrize("reason", [None, "done", "cancelled"])
async def test_only_a_failed_goal_is_claimed_to_be_reopened(stored: Stored, reason: Any) -> None:
    history = await begin(stored)
    if reason is not None:
        await history.append(Termination(reason), release=True)
    await stored.leases.renew(OTHER, 30)
    with pytest.raises(Conflict, match="Only a failed goal can be retried"):
        await stored.leases.claim("g", OTHER, reopen=True)


@pytest.mark.parametrize("reason", [None, "done", "cancelled"])
async def test_only_a_failed_goal_takes_a_reopened_event(stored: Stored, reason: Any) -> None:
    history = await begin(stored)
    if reason is not None:
        await history.append(Termination(reason))
    before = await stored.store.load("g")
    summary = history.summary([])
    events = history.next(reopened(history))
    with pytest.raises(Conflict, match="Only a failed goal can be retried"):
        await history.store(events, summary=summary)
    assert await stored.store.load("g") == before


async def cancelled_child(stored: Stored) -> History:
    """A child that was cancelled, and that nobody owns."""
    await begin(stored, "p")
    history = History(stored, "g")
    made = history.next(GoalBegun("echo", MindSpec("command"), parent=ParentCall("p", "/ship#0.1")))
    await history.store(made, summary=replace(history.summary(made), parent=ParentCall("p", "/ship#0.1")))
    history.events += made
    ended = history.next(Termination("cancelled", error=ToolError(BY_PARENT, "The parent cancelled it.")))
    summary = replace(history.summary(ended), parent=ParentCall("p", "/ship#0.1"))
    await history.store(ended, summary=summary, release=True)
    history.events += ended
    return history


async def test_a_child_that_was_cancelled_is_reopened_and_continues(stored: Stored) -> None:
    history = await claimed(stored, await cancelled_child(stored))
    assert (await stored.store.find("g")).status == "cancelled"
    made = history.next(Reopened("parent", "/ship#0.2", ended_seq=2))
    await history.store(made, summary=replace(history.summary(made), parent=ParentCall("p", "/ship#0.1")))
    found = await stored.store.find("g")
    assert (found.status, found.reason, found.last_seq) == ("open", None, 3)


async def test_a_cancelled_child_takes_no_other_event_and_no_claim_that_does_not_say_so(stored: Stored) -> None:
    await stored.leases.renew(OTHER, 30)
    with pytest.raises(Conflict, match="has ended"):
        await stored.leases.claim((await cancelled_child(stored)).goal_id, OTHER)
    history = await claimed(stored, History(stored, "g", events=[*await stored.store.load("g")]))
    summary = replace(history.summary([]), parent=ParentCall("p", "/ship#0.1"))
    with pytest.raises(Conflict, match="has ended"):
        await history.store(history.next(HELLO), summary=summary)


async def test_a_failed_goal_is_not_claimed_without_saying_that_it_is_reopened(stored: Stored) -> None:
    await failed(stored)
    await stored.leases.renew(OTHER, 30)
    with pytest.raises(Conflict, match="has ended"):
        await stored.leases.claim("g", OTHER)


async def test_a_failed_goal_takes_no_other_event(stored: Stored) -> None:
    history = await claimed(stored, await failed(stored))
    summary = history.summary([])
    with pytest.raises(Conflict, match="has ended"):
        await history.store(history.next(HELLO), summary=summary)


async def test_a_deleted_goal_is_neither_claimed_nor_reopened(stored: Stored) -> None:
    history = await claimed(stored, await failed(stored))
    await stored.store.delete("g")
    with pytest.raises(NotFound):
        await history.append(reopened(history))
    with pytest.raises(NotFound):
        await stored.leases.claim("g", OTHER, reopen=True)


async def test_of_two_that_claim_a_failed_goal_one_is_refused_while_the_other_lives(stored: Stored) -> None:
    history = await failed(stored)
    await claimed(stored, history)
    with pytest.raises(Owned):
        await claimed(stored, history, THIRD)


async def test_a_worker_that_died_between_claim_and_append_leaves_the_goal_failed(stored: Stored) -> None:
    history = await failed(stored)
    lost = await claimed(stored, history)
    stored.dead.add(OTHER.id)
    await stored.leases.retire(OTHER)
    assert (await stored.store.find("g")).status == "failed"
    second = await claimed(stored, history, THIRD)
    await second.append(reopened(second))
    with pytest.raises(Conflict):  # the dead one wakes up
        await lost.append(reopened(lost))
    assert len(await stored.store.load("g")) == 3


async def test_a_retry_and_a_deletion_at_once_exclude_each_other(stored: Stored) -> None:
    for number in range(5):
        history = await claimed(stored, await failed(stored, f"g{number}"))
        said = await asyncio.gather(
            history.append(reopened(history)), stored.store.delete(f"g{number}"), return_exceptions=True
        )
        refused = [each for each in said if isinstance(each, PerdureError)]
        assert len(refused) == 1, said
        if isinstance(said[0], PerdureError):
            with pytest.raises(NotFound):
                await stored.store.load(f"g{number}")
        else:
            assert (await stored.store.find(f"g{number}")).status == "open"


async def test_a_reopened_goal_cannot_be_deleted(stored: Stored) -> None:
    history = await claimed(stored, await failed(stored))
    await history.append(reopened(history))
    with pytest.raises(Conflict):
        await stored.store.delete("g")


async def test_the_same_key_reopens_once_and_names_nothing_else(stored: Stored) -> None:
    history = await claimed(stored, await failed(stored))
    events = history.next(reopened(history), LimitRaised("iterations", 9))
    first = await history.store(events, key="k")
    assert await history.store(events, key="k") == first
    with pytest.raises(Conflict, match="was used for other events"):
        await history.store(history.next(Reopened("person", "other", ended_seq=2)), key="k")
    known = await stored.store.posted_as("g", "k")
    assert known is not None
    assert known[0] == "limit"  # the last event of the append has its key
    assert len(await stored.store.load("g")) == 4


async def test_nothing_is_posted_to_a_failed_goal_and_anything_to_a_reopened_one(stored: Stored) -> None:
    history = await failed(stored)
    with pytest.raises(Conflict, match="has ended"):
        await stored.store.post("g", "signal", {"name": "go", "payload": None}, key="one")
    history = await claimed(stored, history)
    await history.append(reopened(history))
    assert await stored.store.post("g", "signal", {"name": "go", "payload": None}, key="two")


async def test_what_was_posted_too_late_is_removed_by_the_append_that_reopens(stored: Stored) -> None:
    history = await begin(stored)
    await stored.store.post("g", "cancel", {}, key="late")
    await history.append(FAILED, release=True)
    (row,) = await stored.store.inbox("g")
    history = await claimed(stored, history)
    done = await history.append(reopened(history), taken=[row.id], key="k")
    assert not done.inbox_waiting
    assert await stored.store.inbox("g") == []


async def test_a_fork_follows_a_reopened_event_and_its_origin_stays(stored: Stored) -> None:
    history = await claimed(stored, await failed(stored))
    await history.append(reopened(history), HELLO)
    fork = await history.fork("f", 3)
    assert [event.type for event in await stored.store.load("f")] == ["goal", "termination", "reopened", "goal"]
    assert (await stored.store.find("f")).status == "open"
    assert fork.goal_id == "f"


async def test_the_worker_of_a_failed_goal_is_not_shown_as_its_runner(stored: Stored) -> None:
    await claimed(stored, await failed(stored))
    assert [goal.status for goal in await stored.store.list_goals()] == ["failed"]
    assert not await stored.leases.has_next(["cli"], OTHER)
