"""Deadlines of asyncio and sleeps of a flow that have fired: they are recorded, and fire again in the same place."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

from perdure import failpoints
from perdure.kernel.calls.toolbox import Toolbox
from perdure.kernel.events import Event, MindSpec, ToolOutput, decode
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.step_names import is_timer
from perdure.minds.flow.execution.recorded_steps import ChangedFlow
from perdure.minds.flow.flow import Flow
from perdure.minds.flow.goal import Goal
from perdure.minds.flow.mind import FlowMind
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.test_recorded_histories import event_of
from tests.kernel.world import World
from tests.minds import timed_flows
from tests.minds.cleanup_life import Died, FlowFunction, Life
from tests.minds.timed_flows import (
    cleans_up,
    deadline,
    deadline_around_a_pure_step,
    deadline_that_is_swallowed,
    deadlines_of_siblings,
    forever,
    naps,
    nested_deadlines_of_one_length,
    number,
    once,
    polls,
)
from tests.registered_flows import path_of

FLOWS: list[tuple[FlowFunction, Any]] = [
    (deadline, ["late", 1]),
    (deadline_around_a_pure_step, [1, True, 2]),
    (nested_deadlines_of_one_length, ["outer", 2]),
    (deadline_that_is_swallowed, ["open", 1]),
    (deadlines_of_siblings, [0, 1]),
    (naps, [1, 0, 1, 2]),
    (polls, 1),
]
POINTS = ("kernel.append.before", "kernel.append.after")
LEGACY = Path(__file__).parents[1] / "kernel" / "recorded" / "v2" / "flow_deadline.jsonl"


def new_world() -> World:
    dead: set[str] = set()
    store = InMemoryStateStore(is_dead=dead.__contains__)
    return World(store, store, dead=dead, end_within_s=0.05)


@pytest.fixture
def world() -> World:
    return new_world()


@pytest.fixture(autouse=True)
def unchanged_naps() -> Iterator[None]:
    before = list(timed_flows.NAPS)
    yield
    timed_flows.NAPS[:] = before


async def run_to_end(world: World, fn: FlowFunction, die_at: tuple[str, int] | None = None) -> GoalState:
    """Run a flow until its end; it dies once, at the nth hit of a point."""
    spec, hits = MindSpec("flow", at=path_of(fn)), 0

    def die() -> None:
        nonlocal hits
        hits += 1
        if die_at is not None and hits == die_at[1]:
            raise Died

    with failpoints.armed(POINTS[0] if die_at is None else die_at[0], die):
        for _ in range(5):
            with suppress(Died):
                if not await world.store.list_goals():
                    await world.start(spec)
                else:
                    await world.resume()
            if await world.store.list_goals():
                state = fold(await world.store.load("goal-a"))
                if state.termination is not None:
                    return state
    raise AssertionError(f"{fn.__name__} never ended")


def timers_of(state: GoalState) -> list[Any]:
    outcomes = [call.outcome for call in state.calls.values() if is_timer(call.call.step)]
    return [outcome.output for outcome in outcomes if outcome is not None]


def names_of(events: list[Event]) -> list[str]:
    """Return the types of events, with the steps of outcomes."""
    bodies = [decode(event) for event in events]
    return [
        body.call_id.rpartition(".")[0] if isinstance(body, ToolOutput) else event.type
        for event, body in zip(events, bodies, strict=True)
    ]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(("fn", "value"), FLOWS, ids=lambda each: getattr(each, "__name__", ""))
async def test_a_flow_with_timers_ends_alike_wherever_it_dies(fn: FlowFunction, value: Any, point: str) -> None:
    clean = await run_to_end(new_world(), fn)
    for nth in range(1, 9):
        killed = await run_to_end(new_world(), fn, (point, nth))
        assert killed.termination is not None
        assert (killed.termination.reason, killed.termination.value) == ("done", value), killed.termination
        assert len(timers_of(killed)) == len(timers_of(clean))
        assert not killed.open_calls


@pytest.mark.parametrize(("fn", "value"), FLOWS, ids=lambda each: getattr(each, "__name__", ""))
async def test_a_fork_at_any_event_replays_the_timers_before_it(world: World, fn: FlowFunction, value: Any) -> None:
    ended = await run_to_end(world, fn)
    events = [*await world.store.load("goal-a")]
    for seq in range(1, ended.head.seq):
        fork_id = f"goal-{seq}"
        await world.fork(seq, fork_id=fork_id)
        state = (await world.resume(fork_id)).state
        assert state.termination is not None
        assert (state.termination.reason, state.termination.value) == ("done", value), state.termination
        assert [*await world.store.load(fork_id)][:seq] == events[:seq]


async def test_a_fired_deadline_is_recorded_in_front_of_what_follows_from_it(world: World) -> None:
    await run_to_end(world, deadline)
    events = [*await world.store.load("goal-a")]
    assert names_of(events) == ["goal", "action", "/timer:1", "/forever#0", "action", "/number#0", "termination"]
    body = decode(events[2])
    assert isinstance(body, ToolOutput)
    assert 0 <= body.output.pop("seconds") <= timed_flows.LENGTH_S
    assert body == ToolOutput(
        "/timer:1.1", ok=True, output={"deadline": 0}, step="/timer:1", tool="timer", effect="pure"
    )


async def test_a_deadline_that_is_swallowed_is_recorded_in_front_of_the_next_outcome(world: World) -> None:
    await run_to_end(world, deadline_that_is_swallowed)
    names = names_of([*await world.store.load("goal-a")])
    assert names[:4] == ["goal", "action", "/timer:1", "/until_gate#0"]


async def test_the_order_of_timers_is_that_of_the_first_run_and_not_that_of_their_times(world: World) -> None:
    ended = await run_to_end(world, naps)
    timed_flows.NAPS.reverse()
    await world.fork(ended.head.seq - 1)
    again = (await world.resume("goal-f")).state
    assert again.termination == ended.termination
    assert again.calls.keys() == ended.calls.keys()


async def test_a_replay_waits_for_no_timer_that_had_fired(world: World) -> None:
    ended = await run_to_end(world, deadline)
    timed_flows_deadline = ended.head.seq - 1
    await world.fork(timed_flows_deadline)
    began = time.monotonic()
    await world.resume("goal-f")
    assert time.monotonic() - began < 10  # not the 30 s of an unrecorded wait


async def test_sleeps_in_one_place_are_one_event_and_cost_no_commit() -> None:
    async def appends(fn: FlowFunction) -> int:
        count = 0

        def hit() -> None:
            nonlocal count
            count += 1

        with failpoints.armed("kernel.append.after", hit):
            await new_world().start(MindSpec("flow", at=path_of(fn)))
        return count

    async def does_not_poll(goal: Goal) -> int:
        return await once(goal, 1)

    state = await run_to_end(new_world(), polls)
    [output] = timers_of(state)
    assert (output["sleep"], output["times"]) == (0, 30)
    assert 0 <= output["seconds"] <= 0.03
    assert await appends(polls) == await appends(does_not_poll) + 1  # the first is that of the goal itself


async def test_a_timer_of_a_step_is_not_recorded(world: World) -> None:
    async def late() -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.001):
                await asyncio.sleep(1)
        return "late"

    async def has_a_late_step(goal: Goal) -> str:
        return await goal.step(late)

    state = await run_to_end(world, has_a_late_step)
    assert timers_of(state) == []


@pytest.mark.parametrize("die_at", [None, *range(1, 9)])
async def test_a_deadline_in_a_cleanup_is_recorded_and_replayed(die_at: int | None) -> None:
    state = await Life(cleans_up, new_world(), die_before=die_at).ended()
    assert state.status == "cancelled"
    assert len(timers_of(state)) == 1
    assert [call.outcome.ok for step in ("/number#0", "/number#1") if (call := state.calls[f"{step}.1"]).outcome] == [
        *(True, True)
    ]


async def test_a_retry_begins_the_deadline_again_that_ended_the_flow(world: World) -> None:
    gate = asyncio.Event()

    async def until_mended() -> str:
        await gate.wait()
        return "mended"

    async def fails_by_a_deadline(goal: Goal) -> str:
        await once(goal, 1)
        async with asyncio.timeout(0.02):
            return await goal.options(effect="pure").step(until_mended)

    failed = await run_to_end(world, fails_by_a_deadline)
    assert failed.status == "failed"
    gate.set()
    retried = (await world.retry()).state
    assert retried.termination is not None
    assert (retried.termination.reason, retried.termination.value) == ("done", "mended")
    assert len(timers_of(retried)) == len(timers_of(failed))


async def test_an_exception_of_a_timer_is_reported_by_the_event_loop_and_leaves_the_flow_alone(world: World) -> None:
    loop, reported = asyncio.get_running_loop(), list[BaseException]()
    loop.set_exception_handler(lambda _loop, context: reported.append(context["exception"]))

    def broken() -> None:
        raise ValueError("no luck")

    async def has_a_broken_timer(goal: Goal) -> int:
        loop.call_later(0.001, broken)
        await asyncio.sleep(0.01)
        return await once(goal, 1)

    state = await run_to_end(world, has_a_broken_timer)
    loop.set_exception_handler(None)
    assert state.status == "done"
    assert [str(error) for error in reported] == ["no luck"]


async def test_other_code_keeps_its_timers_and_the_event_loop_is_restored(world: World) -> None:
    loop = asyncio.get_running_loop()
    before, seen = loop.call_at, list[bool]()

    async def looks(goal: Goal) -> int:
        seen.append(loop.call_at != before)
        for _ in range(100):  # far more than are live at once
            async with asyncio.timeout(1000):
                await asyncio.sleep(0)
        return await once(goal, 1)

    loop.call_later(0, seen.append, True)
    state = await run_to_end(world, looks)
    assert state.status == "done"
    assert seen == [True, True]
    assert loop.call_at == before
    assert "call_at" not in loop.__dict__


async def replayed(events: list[Event], fn: FlowFunction) -> FlowMind:
    mind = FlowMind(Flow(fn), {"args": [], "kwargs": {}})
    try:
        await mind.prepare(fold(events), Toolbox([]))
    finally:
        await mind.close()
    return mind


async def test_a_history_of_version_2_is_replayed_without_its_fired_deadlines() -> None:
    events = [event_of(line) for line in LEGACY.read_text(encoding="utf-8").splitlines()]
    assert {event.v for event in events} == {2}
    mind = FlowMind(Flow(deadline), {"args": [], "kwargs": {}})
    state = fold(events[:-1])
    await mind.prepare(state, Toolbox([]))
    end = (await mind.decide(state, state.updated_us)).end
    await mind.close()
    assert end is not None
    assert end.value == ["late", 1]


async def test_a_history_of_version_2_that_cannot_be_replayed_is_refused_with_the_reason() -> None:
    async def with_another_step(goal: Goal) -> Any:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await goal.options(effect="idempotent").step(forever)
        return await goal.options(effect="idempotent").step(number, 2)

    events = [event_of(line) for line in LEGACY.read_text(encoding="utf-8").splitlines()]
    with pytest.raises(ChangedFlow, match="does not record which deadlines of asyncio had passed"):
        await replayed(events[:-1], with_another_step)


@pytest.mark.parametrize("how", ["step", "deadline"])
async def test_a_flow_that_waited_for_something_unrecorded_continues_beside_a_running_step(
    world: World, how: str
) -> None:
    opened, gate = asyncio.Event(), asyncio.Event()

    async def until_open() -> None:
        await opened.wait()

    async def opens() -> None:
        opened.set()

    async def two_lines(goal: Goal) -> str:
        async def waits_first() -> None:
            asyncio.get_running_loop().call_later(0.2, gate.set, context=Context())
            await gate.wait()  # longer than a flow is checked again after its last activity
            if how == "step":
                await goal.options(effect="idempotent").step(opens)
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await asyncio.Event().wait()
            opened.set()

        await goal.gather(goal.options(effect="idempotent").step(until_open), waits_first())
        return "both"

    async with asyncio.timeout(20):  # the step never ends unless the other line continues
        state = await run_to_end(world, two_lines)
    assert state.status == "done"
