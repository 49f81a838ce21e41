"""The retry of a goal continues the children that its flow had cancelled before it failed, on each kind of store."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from perdure import Conflict, Goal, GoalFailed, GoalWaiting, Happened, flow
from perdure.app.goals.goals import Goals

CALLS: list[str] = []
BROKEN: set[str] = set()
BEGUN: dict[str, asyncio.Event] = {}
SENT: set[str] = set()


@pytest.fixture(autouse=True)
def fresh() -> None:
    CALLS.clear()
    SENT.clear()
    BROKEN.clear()
    BROKEN.add("pay")
    BEGUN.clear()
    BEGUN["cut off"] = asyncio.Event()


async def act(name: str) -> str:
    """Do something, and hang the first time that it is the step which the cancel is to cut off."""
    CALLS.append(name)
    if name == "cut off" and not BEGUN["cut off"].is_set():
        SENT.add(name)
        BEGUN["cut off"].set()
        await asyncio.Event().wait()
    return name


async def pay() -> str:
    await BEGUN["cut off"].wait()
    CALLS.append("pay")
    if "pay" in BROKEN:
        raise ValueError("no money")
    return "paid"


def was_sent(name: str) -> Happened[str] | bool:
    return Happened(name) if name in SENT else False


def was_not_sent(_name: str) -> bool:
    return False


@flow
async def ship(goal: Goal, effect: Any, check: str | None = None) -> list[str]:
    checks: dict[str, Callable[[str], Any]] = {"sent": was_sent, "not sent": was_not_sent}
    options = goal.options(effect=effect, check=checks[check]) if check else goal.options(effect=effect)
    return [await goal.step(act, "pack"), await options.step(act, "cut off"), await goal.step(act, "note")]


@flow
async def order(goal: Goal, effect: str, check: str | None = None) -> list[str]:
    async with asyncio.TaskGroup() as group:
        shipped = group.create_task(goal.child(ship, effect, check))
        group.create_task(goal.step(pay))
    return shipped.result()


@flow
async def between(goal: Goal) -> list[str]:
    return await goal.child(ship, "idempotent")


@flow
async def wholesale(goal: Goal) -> list[str]:
    async with asyncio.TaskGroup() as group:
        shipped = group.create_task(goal.child(between))
        group.create_task(goal.step(pay))
    return shipped.result()


@flow(cleanup=True)
async def tidy(goal: Goal) -> None:
    try:
        await goal.options(effect="idempotent").step(act, "cut off")
    finally:
        await goal.options(effect="idempotent").step(act, "clean up")


@flow
async def tidy_order(goal: Goal) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(goal.child(tidy))
        group.create_task(goal.step(pay))


@flow
async def changed(goal: Goal) -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(goal.step(pay))
        if "child" not in BROKEN:
            group.create_task(goal.child(ship, "idempotent"))
    return "without it"


async def failed(goals: Goals, what: Any, *args: Any) -> str:
    with pytest.raises(GoalFailed) as failure:
        await goals.run(what, *args)
    BROKEN.discard("pay")
    return failure.value.id


async def child_of(goals: Goals, goal_id: str) -> str:
    [child] = await goals.children_of(goal_id)
    return child.id


async def test_a_cancelled_child_continues_where_it_was_cut_off(goals: Goals) -> None:
    goal_id = await failed(goals, order, "idempotent")
    child = await child_of(goals, goal_id)
    assert (await goals.get(child)).status == "cancelled"
    [offered] = (await goals.look_into(await goals.get(goal_id))).next
    assert "It also continues /ship#0, a child that the flow had cancelled" in offered.why

    assert (await goals.retry(goal_id)).value == ["pack", "cut off", "note"]

    assert Counter(CALLS) == {"pack": 1, "cut off": 2, "pay": 2, "note": 1}
    assert await child_of(goals, goal_id) == child
    [reopened] = (await goals.state(child)).reopenings
    assert (reopened.by, reopened.reason, reopened.again) == ("parent", "/ship#0.2", ("/act#1.1",))
    for each in (goal_id, child):
        assert (await goals.replay(each)).state.status == "done"


@pytest.mark.parametrize("check", [None, "sent"])
async def test_a_step_of_a_cancelled_child_that_may_have_happened_waits_for_a_decision(
    goals: Goals, check: str | None
) -> None:
    goal_id = await failed(goals, order, "once", check)
    child = await child_of(goals, goal_id)
    outcome = (await goals.state(child)).calls["/act#1.1"].outcome
    assert outcome is not None
    assert outcome.happened == ("yes" if check else "unknown")

    with pytest.raises(GoalWaiting, match=f"{child} waits for a decision about /act#1"):
        await goals.retry(goal_id)
    await goals.decide(child, "skip", value="sent")

    assert (await goals.resume(goal_id)).value == ["pack", "sent", "note"]
    assert Counter(CALLS) == {"pack": 1, "cut off": 1, "pay": 2, "note": 1}


async def test_a_step_of_a_cancelled_child_that_did_not_happen_is_called_again(goals: Goals) -> None:
    goal_id = await failed(goals, order, "once", "not sent")
    assert (await goals.retry(goal_id)).value == ["pack", "cut off", "note"]
    assert Counter(CALLS) == {"pack": 1, "cut off": 2, "pay": 2, "note": 1}


async def test_a_child_of_a_cancelled_child_continues_too(goals: Goals) -> None:
    goal_id = await failed(goals, wholesale)
    assert (await goals.retry(goal_id)).value == ["pack", "cut off", "note"]
    assert Counter(CALLS) == {"pack": 1, "cut off": 2, "pay": 2, "note": 1}
    assert {goal.status for goal in await goals.list()} == {"done"}
    assert len(await goals.list()) == 3


async def test_a_child_that_fails_again_is_retried_again(goals: Goals) -> None:
    goal_id = await failed(goals, order, "idempotent")
    BEGUN["cut off"].clear()
    BROKEN.add("pay")
    with pytest.raises(GoalFailed, match="no money"):
        await goals.retry(goal_id)
    BROKEN.clear()
    assert (await goals.retry(goal_id)).value == ["pack", "cut off", "note"]
    assert Counter(CALLS) == {"pack": 1, "cut off": 3, "pay": 3, "note": 1}
    reopened = (await goals.state(await child_of(goals, goal_id))).reopenings
    assert [each.reason for each in reopened] == ["/ship#0.2", "/ship#0.3"]


async def test_a_child_that_has_cleaned_up_is_not_continued(goals: Goals) -> None:
    goal_id = await failed(goals, tidy_order)
    before = await goals.history(goal_id)
    said = rf"{goal_id} cannot be retried, .* and has cleaned up\. .*goal fork {goal_id} --before '/tidy#0'"
    with pytest.raises(Conflict, match=said):
        await goals.retry(goal_id)
    assert await goals.history(goal_id) == before
    assert Counter(CALLS)["clean up"] == 1


async def test_a_child_that_the_flow_does_not_call_again_stays_cancelled(goals: Goals) -> None:
    goal_id = await failed(goals, changed)
    BROKEN.add("child")
    with pytest.raises(Conflict, match="/ship#0"):  # the code is not the one that wrote the history
        await goals.retry(goal_id)
    assert (await goals.get(await child_of(goals, goal_id))).status == "cancelled"
    BROKEN.clear()
    assert (await goals.retry(goal_id)).value == "without it"


async def test_a_person_does_not_retry_a_cancelled_child_alone(goals: Goals) -> None:
    goal_id = await failed(goals, order, "idempotent")
    child = await child_of(goals, goal_id)
    with pytest.raises(Conflict, match=r"Only a failed goal can be retried\. .* is cancelled"):
        await goals.retry(child)
    assert (await goals.get(child)).status == "cancelled"
