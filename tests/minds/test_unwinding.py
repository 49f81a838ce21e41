"""A flow whose goal is parked or resumed is unwound: none of its tasks is left, whatever they wait for."""

import asyncio

import pytest

from perdure import Conflict
from perdure.kernel.events import Ask, MindSpec
from perdure.minds.flow.goal import Goal
from tests.faults.virtual_time import run_virtual
from tests.kernel.world import World
from tests.registered_flows import path_of

_LONGEST_S = 5.0
"""Less than a flow is waited for that does not let itself be unwound."""


def broken() -> None:
    raise ValueError("no luck")


async def hands_over_in_cleanup(goal: Goal) -> None:
    """Let a group fail whose other member begins two tasks in its `finally`: one of them waits for the other."""
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def give() -> None:
        await queue.put(await goal.ask("What is next?"))

    async def member() -> None:
        try:
            await goal.signal("never")
        finally:
            async with asyncio.TaskGroup() as group:
                group.create_task(queue.get())
                group.create_task(give())

    async with asyncio.TaskGroup() as group:
        group.create_task(member())
        group.create_task(goal.options(effect="idempotent").step(broken))


async def test_tasks_that_a_failed_group_does_not_cancel_end_when_the_goal_is_parked(world: World) -> None:
    before = asyncio.all_tasks()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    ran = await world.start(MindSpec("flow", at=path_of(hands_over_in_cleanup)))
    assert ran.outcome == "waiting"
    assert [call.call.question for call in ran.state.open_calls.values() if isinstance(call.call, Ask)]
    assert asyncio.all_tasks() == before
    assert loop.time() - began_s < _LONGEST_S


async def waits_for_a_sibling_in_cleanup(goal: Goal) -> None:
    """Let a group fail whose other members wait for each other in their `finally`."""
    is_ready = asyncio.Event()

    async def first() -> None:
        try:
            await goal.signal("never")
        finally:
            await is_ready.wait()

    async def second() -> None:
        try:
            await goal.signal("never")
        finally:
            await goal.ask("Ready?")
            is_ready.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(first())
        group.create_task(second())
        group.create_task(goal.options(effect="idempotent").step(broken))


def test_a_task_that_waits_in_its_cleanup_for_another_one_ends_when_the_goal_is_parked(world: World) -> None:
    async def run() -> None:
        before = asyncio.all_tasks()
        ran = await world.start(MindSpec("flow", at=path_of(waits_for_a_sibling_in_cleanup)))
        assert ran.outcome == "waiting"
        assert asyncio.all_tasks() == before

    run_virtual(run())


NUMBERS = [1]


def number(given: int) -> int:
    return given


async def fails_beside_a_changed_step(goal: Goal) -> None:
    async def wait_or_fail() -> None:
        if NUMBERS[0] == 1:
            await goal.signal("never")
        broken()

    async with asyncio.TaskGroup() as group:
        group.create_task(goal.options(effect="idempotent").step(number, NUMBERS[0]))
        group.create_task(wait_or_fail())


def test_a_step_that_differs_from_the_history_can_be_cancelled(world: World) -> None:
    async def run() -> None:
        before = asyncio.all_tasks()
        NUMBERS[0] = 1
        await world.start(MindSpec("flow", at=path_of(fails_beside_a_changed_step)))
        NUMBERS[0] = 2
        with pytest.raises(Conflict, match="the code calls it with other arguments"):
            await world.resume()
        assert asyncio.all_tasks() == before

    run_virtual(run())
