"""Flows that cancel what they wait for: it is recorded, and a flow that is run again does the same."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import anyio
import pytest

from perdure import failpoints
from perdure.kernel.events import MindSpec
from perdure.kernel.fold import GoalState, fold
from perdure.minds.flows.flow import Flow
from perdure.minds.flows.goal import Goal
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.world import World

FlowFunction = Callable[[Goal], Coroutine[Any, Any, Any]]


class Died(BaseException):
    """Stands for a kill."""


async def forever() -> None:
    await asyncio.Event().wait()


def quick(number: int) -> int:
    return number


def broken() -> None:
    raise ValueError("no luck")


async def deadline_of_asyncio(goal: Goal) -> Any:
    try:
        async with asyncio.timeout(0.02):
            await goal.options(effect="idempotent").step(forever)
    except TimeoutError:
        return await goal.options(effect="idempotent").step(quick, 1)


async def deadline_of_wait_for(goal: Goal) -> Any:
    try:
        await asyncio.wait_for(goal.ask("Publish?"), 0.02)
    except TimeoutError:
        return await goal.options(effect="idempotent").step(quick, 1)


async def deadline_of_anyio(goal: Goal) -> Any:
    with anyio.move_on_after(0.02) as scope:
        await goal.options(effect="idempotent").step(forever)
    return [scope.cancelled_caught, await goal.options(effect="idempotent").step(quick, 2)]


async def group_whose_member_fails(goal: Goal) -> Any:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(goal.options(effect="idempotent").step(forever))
            group.create_task(goal.signal("never"))
            group.create_task(goal.sleep(1000))
            group.create_task(goal.options(effect="idempotent").step(broken))
    except* Exception:  # noqa: BLE001 (whatever the step raised)
        pass
    return await goal.options(effect="idempotent").step(quick, 3)


async def anyio_group_whose_member_fails(goal: Goal) -> Any:
    async def fails() -> None:
        await goal.options(effect="idempotent").step(quick, 1)
        raise KeyError("x")

    async def waits() -> None:
        await goal.options(effect="idempotent").step(forever)

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(waits)
            group.start_soon(fails)
    except* KeyError:
        pass
    return await goal.options(effect="idempotent").step(quick, 4)


async def task_that_is_cancelled(goal: Goal) -> Any:
    task = asyncio.create_task(goal.options(effect="idempotent").step(forever))
    first = await goal.options(effect="idempotent").step(quick, 5)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return [first, await goal.options(effect="idempotent").step(quick, 6)]


async def recorded_deadline(goal: Goal) -> Any:
    try:
        async with goal.timeout(5):
            await goal.ask("Publish?")
    except TimeoutError:
        return await goal.options(effect="idempotent").step(quick, 7)


async def deadline_that_is_kept(goal: Goal) -> Any:
    async with goal.timeout(500):
        await goal.options(effect="idempotent").step(quick, 8)
    return await goal.options(effect="idempotent").step(quick, 9)


async def question_with_a_timeout(goal: Goal) -> Any:
    try:
        return await goal.ask("Publish?", ["yes", "no"], timeout_s=5)
    except TimeoutError:
        return await goal.options(effect="idempotent").step(quick, 10)


async def signal_with_a_timeout(goal: Goal) -> Any:
    try:
        return await goal.signal("go", timeout_s=5)
    except TimeoutError:
        return await goal.options(effect="idempotent").step(quick, 11)


async def first_of_several(goal: Goal) -> Any:
    position, value = await goal.first(
        goal.signal("never"), goal.options(effect="idempotent").step(quick, 12), goal.sleep(1000)
    )
    return [position, value, await goal.options(effect="idempotent").step(quick, 13)]


async def shadowed(goal: Goal) -> Any:
    def greet(name: str) -> str:
        return f"hello {name}"

    return await goal.options(effect="idempotent").step(greet, name="bob")


FLOWS: list[tuple[FlowFunction, Any]] = [
    (deadline_of_asyncio, 1),
    (deadline_of_wait_for, 1),
    (deadline_of_anyio, [True, 2]),
    (group_whose_member_fails, 3),
    (anyio_group_whose_member_fails, 4),
    (task_that_is_cancelled, [5, 6]),
    (recorded_deadline, 7),
    (deadline_that_is_kept, 9),
    (question_with_a_timeout, 10),
    (signal_with_a_timeout, 11),
    (first_of_several, [1, 12, 13]),
    (shadowed, "hello bob"),
]


async def run_to_end(fn: FlowFunction, die_at: int | None = None) -> GoalState:
    """Run a flow until its end; it dies once, right after the nth append."""
    dead: set[str] = set()
    store = InMemoryStateStore(is_dead=dead.__contains__)
    world = World(store, store, dead=dead)
    path = Flow(fn).path
    appends = 0

    def die() -> None:
        nonlocal appends
        appends += 1
        if appends == die_at:
            raise Died

    with failpoints.armed("kernel.append.after", die):
        for _ in range(20):
            with suppress(Died):
                if not await store.list_goals():
                    await world.start(MindSpec("flow", at=path))
                else:
                    world.clock.now += 10_000_000
                    await world.resume()
            state = fold(await store.load("goal-a"))
            if state.termination is not None:
                return state
    raise AssertionError(f"{fn.__name__} never ended")


@pytest.mark.parametrize(("fn", "value"), FLOWS, ids=lambda each: getattr(each, "__name__", ""))
async def test_a_flow_that_cancels_ends_alike_wherever_it_dies(fn: FlowFunction, value: Any) -> None:
    clean = await run_to_end(fn)
    assert clean.termination is not None
    assert (clean.termination.reason, clean.termination.value) == ("done", value), clean.termination
    assert not clean.open_calls
    for die_at in range(1, 12):
        killed = await run_to_end(fn, die_at)
        assert killed.termination == clean.termination
        assert not killed.open_calls
