"""Retries of goals whose flow cancelled its other calls when one had failed: those are called again, too."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import anyio
import pytest

from perdure import failpoints
from perdure.kernel.events import MindSpec, Reopened
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.reopening import plan_retry
from perdure.minds.flow.goal import Goal
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.world import World
from tests.minds.cleanup_life import Died, FlowFunction, endings
from tests.registered_flows import path_of

STATE: dict[str, bool] = {"is_fixed": False}
RUNS: Counter[str] = Counter()


async def slow() -> str:
    RUNS["slow"] += 1
    if not STATE["is_fixed"]:
        await asyncio.Event().wait()
    return "slow"


async def pay() -> str:
    RUNS["pay"] += 1
    if not STATE["is_fixed"]:
        await asyncio.Event().wait()
    return "paid"


def flaky() -> str:
    RUNS["flaky"] += 1
    if not STATE["is_fixed"]:
        raise ValueError("no luck")
    return "flaky"


def quick(number: int) -> int:
    return number


async def in_a_task_group(goal: Goal) -> Any:
    await goal.options(effect="idempotent").step(quick, 1)
    async with asyncio.TaskGroup() as group:
        one = group.create_task(goal.options(effect="idempotent").step(slow))
        two = group.create_task(goal.options(effect="idempotent").step(flaky))
        three = group.create_task(goal.sleep(5))
        four = group.create_task(goal.options(effect="pure").step(slow))
    return [one.result(), two.result(), three.result(), four.result()]


async def in_an_anyio_group(goal: Goal) -> Any:
    found: list[str] = []

    async def line(fn: Any) -> None:
        found.append(await goal.options(effect="idempotent").step(fn))

    async with anyio.create_task_group() as group:
        group.start_soon(line, slow)
        group.start_soon(line, flaky)
    return sorted(found)


async def in_a_gather(goal: Goal) -> Any:
    tasks = [asyncio.create_task(goal.options(effect="idempotent").step(fn)) for fn in (slow, flaky)]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def in_a_race(goal: Goal) -> Any:
    first = await goal.first(
        goal.options(effect="idempotent").step(flaky), goal.signal("never"), goal.ask("Still there?")
    )
    return [first.position, first.value]


async def in_a_deadline(goal: Goal) -> Any:
    async with goal.timeout(500):
        first = await goal.options(effect="idempotent").step(flaky)
        return [first, await goal.options(effect="idempotent").step(quick, 2)]


async def by_an_error_of_the_flow(goal: Goal) -> Any:
    async def raises() -> int:
        number = await goal.options(effect="idempotent").step(quick, 3)
        if not STATE["is_fixed"]:
            raise KeyError("a bug")
        return number

    async with asyncio.TaskGroup() as group:
        one = group.create_task(raises())
        two = group.create_task(goal.options(effect="idempotent").step(slow))
    return [one.result(), two.result()]


async def after_a_lost_race(goal: Goal) -> Any:
    first = await goal.first(goal.options(effect="idempotent").step(quick, 4), goal.signal("never"))
    return [first.value, await goal.options(effect="idempotent").step(flaky)]


FLOWS: list[tuple[FlowFunction, Any]] = [
    (in_a_task_group, ["slow", "flaky", None, "slow"]),
    (in_an_anyio_group, ["flaky", "slow"]),
    (in_a_gather, ["slow", "flaky"]),
    (in_a_race, [0, "flaky"]),
    (in_a_deadline, ["flaky", 2]),
    (by_an_error_of_the_flow, [3, "slow"]),
    (after_a_lost_race, [4, "flaky"]),
]


async def failed_then_retried(fn: FlowFunction, die_at: int | None = None) -> GoalState:
    """Run a flow until it fails, fix what was wrong, and retry it until its end; it dies once."""
    STATE["is_fixed"] = False
    dead: set[str] = set()
    store = InMemoryStateStore(is_dead=dead.__contains__)
    world = World(store, store, dead=dead)
    await world.start(MindSpec("flow", at=path_of(fn)))
    assert fold(await store.load("goal-a")).status == "failed"
    STATE["is_fixed"] = True
    appends = 0

    def die() -> None:
        nonlocal appends
        appends += 1
        if appends == die_at:
            raise Died

    with failpoints.armed("kernel.append.after", die), failpoints.armed("kernel.append.before", die):
        for _ in range(20):
            state = fold(await store.load("goal-a"))
            if state.termination is not None and state.status == "done":
                return state
            world.clock.now += 10_000_000
            with suppress(Died):
                await (world.retry() if state.status == "failed" else world.resume())
    raise AssertionError(f"{fn.__name__} never ended")


@pytest.mark.parametrize(("fn", "value"), FLOWS, ids=lambda each: getattr(each, "__name__", ""))
async def test_a_retry_calls_again_what_the_failure_has_cancelled(fn: FlowFunction, value: Any) -> None:
    for die_at in (None, *range(1, 13)):
        state = await failed_then_retried(fn, die_at)
        assert state.termination is not None
        assert state.termination.value == value
        assert not state.open_calls


async def with_a_payment(goal: Goal) -> Any:
    async with asyncio.TaskGroup() as group:
        paid = group.create_task(goal.options(effect="once").step(pay))
        group.create_task(goal.options(effect="idempotent").step(flaky))
    return paid.result()


async def with_a_checked_payment(goal: Goal) -> Any:
    async with asyncio.TaskGroup() as group:
        paid = group.create_task(goal.options(effect="once", check=lambda: False).step(pay))
        group.create_task(goal.options(effect="idempotent").step(flaky))
    return paid.result()


async def failed(world: World, fn: FlowFunction) -> tuple[GoalState, Reopened]:
    """Run a flow until it fails, and return what a retry of it reopens."""
    STATE["is_fixed"] = False
    state = (await world.start(MindSpec("flow", at=path_of(fn)))).state
    return state, plan_retry(state, by="person")


async def test_a_cancelled_once_step_of_unknown_effect_waits_for_a_decision(world: World) -> None:
    RUNS.clear()
    state, planned = await failed(world, with_a_payment)
    assert state.calls["/pay#0.1"].outcome is not None
    assert state.calls["/pay#0.1"].outcome.happened == "unknown"
    assert (planned.again, planned.unknown) == (("/flaky#0.1",), ("/pay#0.1",))
    STATE["is_fixed"] = True
    ran = await world.retry()
    assert ran.state.waiting_for == "person"
    assert RUNS["pay"] == 1


async def test_a_cancelled_once_step_that_did_not_happen_is_called_again(world: World) -> None:
    RUNS.clear()
    state, planned = await failed(world, with_a_checked_payment)
    assert planned.unknown == ()
    assert sorted(planned.again) == ["/flaky#0.1", "/pay#0.1"]
    STATE["is_fixed"] = True
    ran = await world.retry()
    assert ran.state.termination is not None
    assert ran.state.termination.value == "paid"
    assert RUNS["pay"] == 2
    assert endings(state)["/pay#0"] == "cancelled"


async def test_the_loser_of_an_earlier_race_stays_cancelled(world: World) -> None:
    _, planned = await failed(world, after_a_lost_race)
    assert planned.again == ("/flaky#0.1",)
