"""A guard ends a goal: first what runs and its children end, then the termination is recorded, whoever dies when."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest

from perdure import NotFound, failpoints
from perdure.kernel.events import Event, MindSpec, Termination, ToolCall, ToolOutput, decode
from perdure.kernel.fold import fold
from perdure.kernel.history.replay import replay
from perdure.kernel.mind import Proposal
from perdure.kernel.tool import CallContext
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.test_retries import Died, dies_at
from tests.kernel.world import ScriptedMind, World

FAILING = ("x1", "x2", "x3")
POINTS = ("kernel.append.before", "kernel.append.after", "store.append.before", "store.append.after")


def call(step: str) -> ToolCall:
    return ToolCall(f"{step}.1", step, "exec", {"argv": [step]}, "idempotent")


@dataclass
class Held:
    """Makes the tool hold the step `long` until it is cancelled, and fail three others with one error."""

    world: World
    goal_id: str = "goal-a"
    is_running: bool = False
    ended_at: list[int] = field(default_factory=list)
    """How many events were stored when the step was ended."""

    def __post_init__(self) -> None:
        self.world.tool.spec = replace(self.world.tool.spec, effect="idempotent")  # recovery may call it again
        self.world.tool.then = self._then
        self.world.tool.fails.update(dict.fromkeys(FAILING, 99))

    async def _then(self, context: CallContext) -> None:
        if context.call.step != "long":
            return
        self.is_running = True
        try:
            await asyncio.Event().wait()
        finally:
            self.is_running = False
            self.ended_at.append(len(await stored(self.world, self.goal_id)))


def decisions() -> ScriptedMind:
    return ScriptedMind([Proposal([call("long"), *map(call, FAILING)])])


async def stored(world: World, goal_id: str) -> Sequence[Event]:
    """The events of a goal; none before it exists."""
    with suppress(NotFound):
        return await world.store.load(goal_id)
    return ()


async def test_what_runs_ends_before_the_guard_ends_the_goal(world: World) -> None:
    held = Held(world)
    world.minds.append(decisions())
    result = await world.start(MindSpec("model"))
    assert (result.state.status, result.state.open_calls) == ("failed", {})
    events = [decode(event) for event in await world.store.load("goal-a")]
    assert isinstance(events[-1], Termination)
    assert events[-1].reason == "repeated_failure"
    long = result.state.calls["long.1"].outcome
    assert isinstance(long, ToolOutput)
    assert long.error is not None
    assert long.error.code == "cancelled"
    assert len(held.ended_at) == 1
    assert held.ended_at[0] < len(events), "the step had ended before the end was stored"
    assert not held.is_running


@pytest.mark.parametrize("point", POINTS)
async def test_a_worker_that_dies_while_a_guard_ends_its_goal_leaves_it_to_the_next(world: World, point: str) -> None:
    """Wherever the worker dies, the next one ends the goal by the same guard, once, with nothing left running."""
    if point.startswith("store.") and isinstance(world.store, InMemoryStateStore):
        pytest.skip("a store in memory commits nothing")
    died = True
    for nth in range(1, 9):
        Held(world, goal_id := f"goal-{nth}")
        world.minds.append(decisions())
        with failpoints.armed(point, dies_at(nth)):
            try:
                await world.start(MindSpec("model"), goal_id)
                died = False
            except Died:
                pass
        if not (events := await stored(world, goal_id)):
            continue  # it died before the goal was there
        world.minds.clear()
        if not isinstance(decode(events[-1]), Termination):
            world.minds.append(ScriptedMind([]) if len(events) > 1 else decisions())
            await world.resume(goal_id)
        events = await stored(world, goal_id)
        ends = [body for body in map(decode, events) if isinstance(body, Termination)]
        assert [end.reason for end in ends] == ["repeated_failure"]
        assert fold(events).open_calls == {}
        replay(events, await world.store.find(goal_id))
        if not died:
            assert nth > 2, "it died before and after the commit of the end"
            return
    raise AssertionError(f"{point} was hit more than eight times")
