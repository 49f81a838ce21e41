"""A wish to end, after the step or at once, at every moment of a goal; what the stores do then, the faults show."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from perdure.kernel.events import Termination
from perdure.kernel.fold import fold
from perdure.kernel.loop import Loop
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.lives import Died, Lives, story
from tests.kernel.test_faults import ONE_BY_ONE, POINTS, each_hit, never_died
from tests.kernel.world import World

KERNEL_POINTS = [point for point in POINTS if point.startswith("kernel.")]


@pytest.fixture
def memory() -> World:
    dead: set[str] = set()
    store = InMemoryStateStore(is_dead=dead.__contains__)
    return World(store, store, dead=dead)


@pytest.mark.parametrize("point", KERNEL_POINTS)
async def test_a_goal_that_is_asked_to_end_after_the_step_is_never_in_doubt(memory: World, point: str) -> None:
    expected = await never_died(memory, ONE_BY_ONE)
    for lives in await each_hit(memory, ONE_BY_ONE, point, blow="stop"):
        events = await lives.history()
        assert "outcome_unknown" not in [event.type for event in events]
        assert story(events) == expected
        assert lives.tool.effects == {"fetch": 1, "build": 1, "send": 1}


@pytest.mark.parametrize("point", KERNEL_POINTS)
async def test_a_goal_that_is_ended_at_once_continues_as_after_a_death(memory: World, point: str) -> None:
    expected = await never_died(memory, ONE_BY_ONE)
    for lives in await each_hit(memory, ONE_BY_ONE, point, deaths=2, blow="cancel"):
        assert story(await lives.history()) == expected
        assert lives.tool.effects["build"] == lives.tool.effects["send"] == 1


@pytest.mark.parametrize("point", KERNEL_POINTS)
async def test_a_recovery_that_is_asked_to_end_can_be_made_again(memory: World, point: str) -> None:
    """Every hit is a death in turn, and the next one, in the life after it, a wish to end."""
    expected = await never_died(memory, ONE_BY_ONE)
    for hit in range(1, 10):
        lives = await Lives(memory, ONE_BY_ONE, f"goal-{hit}", point, {hit: "death", hit + 1: "stop"}).live()
        assert story(await lives.history()) == expected
        assert lives.tool.effects["build"] == lives.tool.effects["send"] == 1


async def test_a_wish_to_end_that_comes_before_the_recovery_is_over_begins_nothing_again(world: World) -> None:
    def die(_context: object) -> None:
        raise Died

    world.tool.during = die
    with pytest.raises(Died):
        await world.start(ONE_BY_ONE)
    world.tool.during = lambda _context: None
    world.watch = lambda loop: loop.stop()
    ran = await world.resume()
    assert ran.outcome == "interrupted"
    assert world.tool.effects == {"fetch": 1}
    assert (await world.store.find("goal-a")).worker is None


async def test_a_step_that_had_ended_when_its_goal_was_cancelled_keeps_its_outcome(world: World) -> None:
    async def cancel(_context: object) -> None:
        if world.tool.effects["build"] == 0:
            await world.store.post("goal-a", "cancel", {}, key="k")

    world.tool.then = cancel
    ran = await world.start(ONE_BY_ONE)
    assert ran.state.termination == Termination("cancelled")
    outcome = fold(await world.store.load("goal-a")).calls["build.1"].outcome
    assert outcome is not None
    assert outcome.ok is (world.tool.effects["build"] == 1)


@pytest.fixture
async def stubborn(world: World) -> AsyncIterator[asyncio.Event]:
    """Make the tool one that begins, and then does not end by being cancelled, but only when it is let go."""
    begun, let_go = asyncio.Event(), asyncio.Event()

    async def then(_context: object) -> None:
        begun.set()
        while not let_go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await let_go.wait()

    world.tool.then = then
    world.end_within_s = 0.01
    yield begun
    let_go.set()
    await asyncio.sleep(0)


async def test_a_goal_is_cancelled_though_its_step_does_not_end(world: World, stubborn: asyncio.Event) -> None:
    loops: list[Loop] = []
    world.watch = loops.append
    running = asyncio.create_task(world.start(ONE_BY_ONE))
    await stubborn.wait()
    await world.store.post("goal-a", "cancel", {}, key="k")
    loops[0].check_inbox()
    state = (await running).state
    assert state.termination == Termination("cancelled")
    assert [call.unknown is not None for call in state.open_calls.values()] == [True]


async def test_who_ends_at_once_does_not_wait_for_a_step_that_does_not_end(
    world: World, stubborn: asyncio.Event
) -> None:
    running = asyncio.create_task(world.start(ONE_BY_ONE))
    await stubborn.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert asyncio.all_tasks() == {asyncio.current_task()}  # nobody else waits for it either, such as asyncio.run
