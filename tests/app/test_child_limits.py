"""The limit of iterations beside a child that is still open: the parent begins nothing, and the child is left alone."""

import asyncio

import pytest

from perdure import Goal, GoalWaiting, Limits, flow
from perdure.app.goals.goals import Goals
from tests.app.parked import until_waiting

_STEPS = 5
_done: list[int] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    _done.clear()


def _do(number: int) -> int:
    _done.append(number)
    return number


@flow
async def asks(goal: Goal) -> str:
    return str(await goal.ask("Publish?", ["yes", "no"]))


@flow
async def busy(goal: Goal) -> str:
    """Work beside a child, until the child has ended."""
    child = asyncio.create_task(goal.child(asks))
    for number in range(_STEPS):
        await goal.step(_do, number)
    return await child


async def test_a_goal_at_its_limit_of_iterations_keeps_its_open_child_and_takes_its_result_later(goals: Goals) -> None:
    with pytest.raises(GoalWaiting) as waiting:
        await goals.options(limits=Limits(iterations=3)).run(busy)
    parent = waiting.value.id
    assert (waiting.value.waiting_for, waiting.value.exit_code) == ("limit", 6)
    done = list(_done)
    assert len(done) < _STEPS
    [child] = await goals.children_of(parent)
    await until_waiting(await goals.handle(child.id))  # it runs until it has asked, also when its parent is released

    await goals.decide(child.id, "answer", value="yes")
    assert (await goals.resume(child.id)).value == "yes"
    with pytest.raises(GoalWaiting):
        await goals.resume(parent)
    assert _done == done, "the end of a child does not raise the limit"

    assert (await goals.resume(parent, limits=Limits(iterations=50))).value == "yes"
    assert _done == list(range(_STEPS))
    assert len(await goals.children_of(parent)) == 1


async def test_a_goal_at_its_limit_of_iterations_is_cancelled_with_its_open_child(goals: Goals) -> None:
    with pytest.raises(GoalWaiting) as waiting:
        await goals.options(limits=Limits(iterations=3)).run(busy)
    assert (await goals.cancel(waiting.value.id)).status == "cancelled"
    [child] = await goals.children_of(waiting.value.id)
    assert child.status == "cancelled"
