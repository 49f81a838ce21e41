"""`goal.now`, `goal.uuid` and `goal.random`: the same in every run of a goal, and in the part that a fork inherits."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import Invalid, failpoints
from perdure.kernel.events import MindSpec
from perdure.kernel.fold import GoalState, fold
from perdure.minds.flow.flow import Flow
from perdure.minds.flow.goal import Goal
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.world import World

Code = Callable[[Goal], Coroutine[Any, Any, Any]]


class Died(BaseException):
    """Stands for a kill."""


def echo(*values: Any) -> list[Any]:
    return list(values)


def drawn(goal: Goal) -> tuple[str, str, int]:
    return goal.now().isoformat(), str(goal.uuid()), goal.random().randrange(10**9)


async def note(goal: Goal, effect: Any = "idempotent") -> Any:
    """Give all three to a step: another value at a replay would be a changed flow."""
    return await goal.options(effect=effect).step(echo, *drawn(goal))


async def in_a_row(goal: Goal) -> list[Any]:
    first = [await note(goal), await note(goal, "pure")]
    await goal.sleep(30)
    return [*first, await note(goal), drawn(goal)]


async def side_by_side(goal: Goal) -> list[Any]:
    async def twice() -> list[Any]:
        return [await note(goal), await note(goal), drawn(goal)]

    branches = await goal.gather(twice(), twice(), note(goal))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(note(goal)) for _ in range(2)]
    return [*branches, *(task.result() for task in tasks), await note(goal)]


def new_world() -> World:
    dead: set[str] = set()
    store = InMemoryStateStore(is_dead=dead.__contains__)
    return World(store, store, dead=dead)


async def run(world: World, code: Code, die_at: int | None = None, goal_id: str = "goal-a") -> GoalState:
    """Run a goal until its end, through one death at the nth append."""
    flow = Flow(code)
    appends = 0

    def die() -> None:
        nonlocal appends
        appends += 1
        if appends == die_at:
            raise Died

    with failpoints.armed("kernel.append.after", die):
        for _ in range(5):
            with suppress(Died):
                if not await world.store.list_goals():
                    await world.start(MindSpec("flow", at=flow.path), goal_id)
                else:
                    await world.resume(goal_id)
            state = fold(await world.store.load(goal_id))
            if state.termination is not None:
                assert state.termination.reason == "done", state.termination
                return state
    raise AssertionError("the goal never ended")


def value(state: GoalState) -> Any:
    assert state.termination is not None
    return state.termination.value


@pytest.mark.parametrize("code", [in_a_row, side_by_side])
async def test_they_are_the_same_wherever_the_goal_dies(code: Code) -> None:
    clean = await run(new_world(), code)
    for die_at in range(1, 9):
        killed = await run(new_world(), code, die_at)
        ids = [[uuid, number] for _, uuid, number in flat(value(killed))]
        assert ids == [[uuid, number] for _, uuid, number in flat(value(clean))]


def flat(found: Any) -> list[Any]:
    """Return the triples of `drawn` in a nest of lists."""
    if len(found) == 3 and isinstance(found[1], str):
        return [found]
    return [each for part in found for each in flat(part)]


async def test_no_two_calls_are_alike_and_time_only_moves_on() -> None:
    state = await run(new_world(), side_by_side)
    triples = flat(value(state))
    assert len({uuid for _, uuid, _ in triples}) == len({number for *_, number in triples}) == len(triples)
    row = [datetime.fromisoformat(each[0]) for each in flat(value(await run(new_world(), in_a_row)))]
    assert row == sorted(row)
    assert row[0].tzinfo == UTC
    assert row[2] - row[1] >= timedelta(seconds=30)


async def test_the_time_is_that_of_the_newest_result() -> None:
    async def asks(goal: Goal) -> list[str]:
        before = goal.now()
        await note(goal)
        after = goal.now()
        await asyncio.sleep(0)
        return [before.isoformat(), after.isoformat(), goal.now().isoformat()]

    state = await run(new_world(), asks)
    ended_us = next(iter(state.calls.values())).ended_us
    assert ended_us is not None
    times = [datetime.fromisoformat(each) for each in value(state)]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    moments = [epoch + timedelta(microseconds=each) for each in (state.created_us, ended_us, ended_us)]
    assert times == moments


async def test_they_cost_no_event() -> None:
    async def asks(goal: Goal) -> None:
        for _ in range(100):
            drawn(goal)

    assert (await run(new_world(), asks)).head.seq == 2


async def test_two_goals_differ() -> None:
    first, second = [value(await run(new_world(), in_a_row, goal_id=name)) for name in ("goal-a", "goal-b")]
    assert {each[1] for each in flat(first)}.isdisjoint(each[1] for each in flat(second))


@pytest.mark.parametrize("code", [in_a_row, side_by_side])
async def test_a_fork_has_what_its_parent_had_up_to_the_fork_and_its_own_from_there(code: Code) -> None:
    world = new_world()
    parent = await run(world, code)
    last = parent.head.seq
    flow = Flow(code)
    for at in range(1, last):
        world.clock.now += 3_600_000_000
        state = await world.fork(at, fork_id=f"fork-{at}")
        inherited = {call.call.step for call in state.calls.values()}
        assert (await world.resume(f"fork-{at}")).outcome == "ended"
        world.clock.now += 3_600_000_000
        state = fold(await world.store.load(f"fork-{at}"))
        assert at == last - 1 or value(state) != value(parent)
        for call in state.calls.values():
            before = parent.calls.get(call.call.call_id)
            if before is None or before.outcome is None or call.outcome is None or call.outcome.output is None:
                continue
            is_same = call.outcome.output[1] == before.outcome.output[1]
            assert is_same == (call.call.step in inherited), call.call.step
    assert flow.fn is code


async def test_a_fork_that_dies_is_resumed_and_can_be_forked_again() -> None:
    world = new_world()
    await run(world, in_a_row)
    flow = Flow(in_a_row)
    await world.fork(3, fork_id="fork-1")
    with failpoints.armed("kernel.append.after", _raise_died), suppress(Died):
        await world.resume("fork-1")
    assert (await world.resume("fork-1")).outcome == "ended"
    first = fold(await world.store.load("fork-1"))
    world.clock.now += 3_600_000_000
    await world.fork(first.head.seq - 3, "fork-1", "fork-2")
    assert (await world.resume("fork-2")).outcome == "ended"
    second = fold(await world.store.load("fork-2"))
    assert [origin.goal_id for origin in second.origins] == ["goal-a", "fork-1", "fork-2"]
    ids = [{each[1] for each in flat(value(state))} for state in (first, second)]
    assert ids[0] & ids[1], "what was inherited"
    assert ids[0] != ids[1]
    assert flow.fn is in_a_row


def _raise_died() -> None:
    raise Died


@pytest.mark.parametrize("what", ["now", "uuid", "random"])
async def test_a_step_is_refused(what: str) -> None:
    async def asks(goal: Goal) -> str:
        def inside() -> str:
            with pytest.raises(Invalid, match=f"goal.{what} was called outside of its flow"):
                getattr(goal, what)()
            return "refused"

        return await goal.step(inside)

    assert value(await run(new_world(), asks)) == "refused"
