"""Flows with unrecorded sleeps, deadlines and tasks of their own: run again, they meet everything in the same order.

Each was found by `tests/faults`, and failed before.
"""

import asyncio
import time
from contextlib import suppress
from typing import Any

import anyio
import pytest

from perdure import Goal, failpoints
from perdure.kernel.events import MindSpec
from tests.kernel.world import World
from tests.minds.test_flow_cancellation import Died, FlowFunction, forever, once, quick, run_to_end
from tests.registered_flows import path_of


async def takes(seconds: float, number: int) -> int:
    await asyncio.sleep(seconds)
    return number


async def deadline_that_never_began(goal: Goal) -> Any:
    async with goal.timeout(5):
        pass
    return await once(goal, quick, 1)


async def sleep_beside_a_step(goal: Goal) -> Any:
    async def sleeps() -> Any:
        await asyncio.sleep(0.01)
        return await once(goal, quick, 2)

    async def steps() -> Any:
        return [await once(goal, takes, 0.05, 3), await once(goal, quick, 4)]

    return await asyncio.gather(sleeps(), steps())


async def sleep_inside_a_deadline(goal: Goal) -> Any:
    async with asyncio.timeout(100):
        first = await once(goal, quick, 5)
        await asyncio.sleep(0.01)
        return [first, await once(goal, quick, 6)]


async def two_timers_at_once(goal: Goal) -> Any:
    async def times_out() -> Any:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await goal.signal("never")
        return await once(goal, quick, 7)

    async def sleeps() -> Any:
        await asyncio.sleep(0.02)
        return await once(goal, quick, 8)

    async with asyncio.TaskGroup() as group:
        lines = [group.create_task(times_out()), group.create_task(sleeps())]
    return [line.result() for line in lines]


GAPS_S: list[float] = []
"""How long the machine is busy between the two timers of `timers_of_a_busy_machine`, in each of its runs."""


async def timers_of_a_busy_machine(goal: Goal) -> Any:
    async def times_out() -> Any:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await goal.signal("never")
        return await once(goal, quick, 7)

    async def sleeps() -> Any:
        time.sleep(GAPS_S.pop(0) if len(GAPS_S) > 1 else GAPS_S[0])  # noqa: ASYNC251 (it blocks the loop)
        await asyncio.sleep(0.01)
        return await once(goal, quick, 8)

    async with asyncio.TaskGroup() as group:
        lines = [group.create_task(times_out()), group.create_task(sleeps())]
    return [line.result() for line in lines]


async def deadline_that_passes_before_its_signal_begins(goal: Goal) -> Any:
    async def times_out() -> Any:
        await once(goal, quick, 1)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.005):
                await goal.signal("never")
        return await once(goal, quick, 17)

    async def blocks() -> Any:
        await once(goal, quick, 2)
        time.sleep(GAPS_S.pop(0) if GAPS_S else 0.0)  # noqa: ASYNC251 (it blocks the loop)
        return await once(goal, quick, 18)

    return await asyncio.gather(times_out(), blocks())


async def leaves_a_task_behind(goal: Goal) -> Any:
    async def cleans_up() -> Any:
        for _ in range(5):
            await asyncio.sleep(0)
        await goal.ask("Publish?")

    step = await once(goal, quick, 1)
    task = asyncio.create_task(cleans_up())
    return [step, task.done()]


async def gather_in_a_scope_of_anyio(goal: Goal) -> Any:
    async def cleans_up() -> None:
        try:
            await once(goal, forever)
        finally:
            await asyncio.sleep(0)

    with anyio.move_on_after(0.02) as scope:
        await goal.gather(cleans_up(), once(goal, quick, 9))
    return [scope.cancelled_caught, await once(goal, quick, 10)]


async def step_beside_a_pure_step(goal: Goal) -> Any:
    position, value = await goal.first(goal.options(effect="pure").step(forever), once(goal, quick, 11))
    return [position, value]


async def signal_that_came_before(goal: Goal) -> Any:
    await goal.signal("begin")
    position, value = await goal.first(goal.signal("go"), goal.sleep(5000))
    return [position, value]


async def test_a_signal_that_came_before_its_wait_wakes_the_flow_beside_an_open_call(world: World) -> None:
    started = await world.start(MindSpec("flow", at=path_of(signal_that_came_before)))
    assert started.outcome == "waiting"
    for name in ("go", "begin"):
        await world.store.post("goal-a", "signal", {"name": name, "payload": name}, key=name)
    ended = (await world.resume()).state
    assert ended.termination is not None
    assert ended.termination.value == [0, "go"]


async def question_beside_a_long_sleep(goal: Goal) -> Any:
    async def asks() -> Any:
        return [await goal.ask("Publish?"), await once(goal, quick, 12), await goal.signal("go")]

    return await goal.gather(asks(), goal.sleep(5000))


async def parked_with_an_answer(world: World) -> None:
    """Park a goal that waits for an answer and for a moment, and post the answer."""
    await world.start(MindSpec("flow", at=path_of(question_beside_a_long_sleep)))
    payload = {"call_id": "g1.0/ask#0.1", "decision": "answer", "value": "yes"}
    await world.store.post("goal-a", "decision", payload, key="answer")


async def test_a_parked_goal_is_due_as_long_as_its_flow_does_not_know_an_answer(world: World) -> None:
    await parked_with_an_answer(world)
    await world.settle()
    answered = await world.store.find("goal-a")
    assert (answered.status, answered.due_us) == ("waiting", answered.updated_us)
    parked = (await world.resume()).state
    assert parked.calls["g1.0/quick#0.1"].outcome is not None
    assert (await world.store.find("goal-a")).due_us == min(parked.timers().values())


async def test_a_goal_is_due_when_its_worker_dies_before_the_flow_knows_an_answer(world: World) -> None:
    await parked_with_an_answer(world)

    def die() -> None:
        raise Died

    with suppress(Died), failpoints.armed("kernel.append.after", die):
        await world.resume()
    answered = await world.store.find("goal-a")
    assert (answered.status, answered.due_us) == ("waiting", answered.updated_us)
    assert (await world.resume()).state.calls["g1.0/quick#0.1"].outcome is not None


FLOWS: list[tuple[FlowFunction, Any]] = [
    (deadline_that_never_began, 1),
    (sleep_beside_a_step, [2, [3, 4]]),
    (sleep_inside_a_deadline, [5, 6]),
    (two_timers_at_once, [7, 8]),
    (gather_in_a_scope_of_anyio, [True, 10]),
    (step_beside_a_pure_step, [1, 11]),
]


@pytest.mark.parametrize(("fn", "value"), FLOWS, ids=lambda each: getattr(each, "__name__", ""))
async def test_a_flow_meets_everything_in_the_same_order_wherever_it_dies(fn: FlowFunction, value: Any) -> None:
    for die_at in range(12):
        state = await asyncio.wait_for(run_to_end(fn, die_at), 20)
        assert state.termination is not None
        assert (state.termination.reason, state.termination.value) == ("done", value), (die_at, state.termination)
        assert not state.open_calls


@pytest.mark.parametrize("gaps_s", [(0.004, 0.0), (0.0, 0.004), (0.0, 0.0), (0.004, 0.004)])
async def test_two_timers_are_fired_in_the_recorded_order_however_busy_the_machine_is(
    gaps_s: tuple[float, float],
) -> None:
    for die_at in range(1, 7):
        GAPS_S[:] = gaps_s
        state = await asyncio.wait_for(run_to_end(timers_of_a_busy_machine, die_at), 20)
        assert state.termination is not None
        assert state.termination.value == [7, 8], (die_at, state.termination)


async def test_a_step_that_a_deadline_cancelled_before_it_began_is_missing_in_the_history() -> None:
    for die_at in range(1, 9):
        GAPS_S[:] = [0.03]
        state = await asyncio.wait_for(run_to_end(deadline_that_passes_before_its_signal_begins, die_at), 20)
        assert state.termination is not None
        assert state.termination.value == [17, 18], (die_at, state.termination)


async def test_a_flow_that_leaves_a_task_behind_ends_alike_wherever_it_dies() -> None:
    for die_at in range(6):
        state = await asyncio.wait_for(run_to_end(leaves_a_task_behind, die_at), 20)
        assert state.termination is not None
        assert "The flow returned while /ask#0 was in flight" in str(state.termination.detail), die_at
