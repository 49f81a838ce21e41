"""A clock that is set back, a tool that raises, a plan that makes no sense."""

from pathlib import Path

import pytest

from perdure import Invalid
from perdure.app import open_ephemeral
from perdure.app.goals.new_goal import NewGoal
from perdure.kernel.calls.decisions import choose
from perdure.kernel.events import MindSpec, ToolError
from perdure.kernel.history.replay import replay
from perdure.kernel.tool import CallContext
from tests.kernel.test_decisions import END, parked, post
from tests.kernel.test_faults import ONE_BY_ONE
from tests.kernel.world import ScriptedMind, World

RETRYING = """
goal: retry
steps:
  - {id: fetch, exec: [fetch], retry: {attempts: 2, initial: 10s}}
"""
DAY_US = 24 * 3600 * 1_000_000


@pytest.mark.parametrize("step", ["fetch", "build"])
async def test_a_clock_that_is_set_back_by_a_day_changes_neither_the_order_nor_the_waits(
    world: World, step: str
) -> None:
    def set_back(context: CallContext) -> None:
        if context.call.step == step:
            world.clock.now -= DAY_US

    world.tool.during = set_back
    assert (await world.start(ONE_BY_ONE)).outcome == "waiting"
    asked_us = world.clock.now
    await world.store.post("goal-a", "decision", {"call_id": "sure.1", "decision": "answer", "value": "yes"}, key="k")
    world.clock.now -= DAY_US
    assert (await world.resume()).state.status == "done"
    events = await world.store.load("goal-a")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].timestamp_us < events[0].timestamp_us
    assert replay(events, await world.store.find("goal-a")).state.status == "done"
    assert world.clock.now < asked_us, "the wait of 20 s was not made longer by a clock that was set back before it"


async def test_a_wait_ends_at_its_moment_when_the_clock_is_set_back_while_it_lasts(world: World) -> None:
    naps = 0

    async def sleep(seconds: float) -> None:
        nonlocal naps
        naps += 1
        world.clock.now += int(seconds * 1e6) - (3600 * 1_000_000 if naps == 1 else 0)

    world.clock.sleep = sleep  # type: ignore[method-assign]
    world.park_after_s = 1e9
    begun_us = world.clock.now
    assert (await world.start(ONE_BY_ONE)).outcome == "waiting"
    assert world.clock.now >= begun_us + 20 * 1_000_000
    assert naps > 300, "it is looked at the clock again every ten seconds"


async def test_a_retry_does_not_wait_a_day_longer_when_the_clock_is_set_back_by_one(world: World) -> None:
    slept: list[float] = []
    sleep = world.clock.sleep

    async def counted_sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:
            world.clock.now -= DAY_US
        await sleep(seconds)

    world.tool.fails["fetch"] = 1
    world.clock.sleep = counted_sleep  # type: ignore[method-assign]
    await world.start(RETRYING)
    assert sum(slept) < 60


async def test_an_approval_that_was_recorded_while_no_worker_ran_the_goal_lets_the_call_run(world: World) -> None:
    await post(world, choose(await parked(world), "approve", None))
    await world.settle()
    world.minds = [ScriptedMind([END])]
    assert (await world.resume()).state.status == "done"
    assert world.tool.effects == {"act": 1}


async def test_a_tool_that_raises_is_a_step_that_failed(world: World) -> None:
    def explode(_context: CallContext) -> None:
        raise ZeroDivisionError("no such number")

    world.tool.during = explode
    ran = await world.start(ONE_BY_ONE)
    assert ran.state.termination is not None
    assert ran.state.termination.reason == "failed"
    outcome = ran.state.calls["fetch.1"].outcome
    assert outcome is not None
    assert outcome.error == ToolError("internal", "ZeroDivisionError: no such number")
    assert world.tool.effects == {"fetch": 1}


@pytest.mark.parametrize(
    "plan", ["", "goal: x", "goal: x\nsteps: [{id: a}]", "goal: x\nsteps: [{id: a, exec: a, b: c}]"]
)
async def test_of_a_plan_that_is_invalid_nothing_is_stored(tmp_path: Path, plan: str) -> None:
    async with open_ephemeral() as goals:
        with pytest.raises(Invalid):
            await goals.begin(NewGoal("x", MindSpec("plan", plan=plan), tmp_path))
        assert await goals.list() == []
