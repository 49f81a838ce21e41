"""Flows on an event loop that does not show its timers: all that is recorded works, and deadlines of asyncio do not."""

import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
import uvloop

from perdure.kernel.fold import GoalState
from perdure.minds.flow.goal import Goal
from tests.minds.cleanup_life import FlowFunction, endings
from tests.minds.test_flow_cancellation import (
    agent_with_tools,
    anyio_group_whose_member_fails,
    deadline_of_anyio,
    deadline_of_asyncio,
    deadline_of_wait_for,
    deadline_that_fails,
    deadline_that_is_kept,
    first_of_several,
    group_whose_member_fails,
    once,
    question_with_a_timeout,
    queue_between_lines,
    quick,
    recorded_deadline,
    rest_is_cancelled,
    run_to_end,
    scope_that_is_cancelled,
    signal_with_a_timeout,
    task_that_is_cancelled,
)
from tests.minds.test_flow_cleanup import life, undoes_in_a_group


async def sleeps(goal: Goal) -> Any:
    first = await once(goal, quick, 1)
    await asyncio.sleep(0.001)
    return [first, await once(goal, quick, 2)]


async def waits_with_a_timeout(goal: Goal) -> Any:
    task = asyncio.create_task(goal.signal("never"))
    try:
        await asyncio.wait([task], timeout=0.01)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


WORKING: list[tuple[FlowFunction, Any]] = [
    (group_whose_member_fails, 3),
    (anyio_group_whose_member_fails, 4),
    (task_that_is_cancelled, [5, 6]),
    (recorded_deadline, 7),
    (deadline_that_is_kept, 9),
    (question_with_a_timeout, 10),
    (signal_with_a_timeout, 11),
    (first_of_several, [1, 12, 13]),
    (scope_that_is_cancelled, [[20], 21]),
    (rest_is_cancelled, [[27], 2, 28]),
    (queue_between_lines, [[34, 35, 36], 37]),
    (agent_with_tools, [[1, 1], 40]),
    (sleeps, [1, 2]),
]


def on_uvloop(run: Callable[[], Any]) -> Any:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


@pytest.mark.parametrize(("fn", "value"), WORKING, ids=lambda each: getattr(each, "__name__", ""))
def test_a_flow_on_uvloop_ends_alike_wherever_it_dies(fn: FlowFunction, value: Any) -> None:
    async def run() -> list[GoalState]:
        return [await run_to_end(fn, die_at) for die_at in (None, *range(1, 6))]

    for state in on_uvloop(run):
        assert state.termination is not None
        assert (state.termination.reason, state.termination.value) == ("done", value), state.termination


@pytest.mark.parametrize(
    "fn",
    [deadline_of_asyncio, deadline_of_wait_for, deadline_of_anyio, deadline_that_fails, waits_with_a_timeout],
    ids=lambda fn: fn.__name__,
)
@pytest.mark.filterwarnings("ignore:coroutine 'Unawaited:RuntimeWarning")  # asyncio.wait_for fails before it awaits
def test_deadlines_of_asyncio_are_refused_on_uvloop(fn: FlowFunction) -> None:
    async def run() -> list[GoalState]:
        return [await run_to_end(fn, die_at) for die_at in (None, 1, 2)]

    for state in on_uvloop(run):
        assert state.termination is not None
        assert state.termination.reason == "fatal_error"
        assert "goal.timeout(seconds)" in (state.termination.detail or "")
    gc.collect()


def test_others_on_the_same_loop_keep_their_deadlines_and_the_loop_is_restored() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        before = loop.call_at, loop.call_later
        one = life(undoes_in_a_group)
        await one.begin()
        assert loop.call_at != before[0]
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        with anyio.move_on_after(0.01):
            await anyio.sleep_forever()
        await one.cancel()
        state = await one.run_to_end()
        assert state.status == "cancelled"
        assert [how for step, how in endings(state).items() if "undo" in step] == ["ok", "ok"]
        assert (loop.call_at, loop.call_later) == before

    on_uvloop(run)
