"""Random flows, killed at every fail-point: the same value and the same history as without."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import failpoints
from perdure.kernel.events import Ask, Effect, MindSpec, ToolCall, Wait
from perdure.kernel.fold import GoalState, fold
from perdure.minds.flow.flow import Flow
from perdure.minds.flow.goal import Goal
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.crash.size import torture_size
from tests.kernel.world import World

POINTS = ("kernel.append.before", "kernel.append.after", "kernel.effect.before", "kernel.effect.after")


class Died(BaseException):
    """What a process feels when it is killed."""


@dataclass
class Outside:
    """What the steps of a flow do to the world."""

    effects: Counter[str]

    async def act(self, place: str, fails: bool) -> str:
        self.effects[place] += 1
        if fails:
            raise ValueError(place)
        return place


@dataclass(frozen=True)
class Step:
    effect: Effect
    fails: bool = False
    retry: int = 0

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        try:
            return await goal.options(effect=self.effect, retry=self.retry + 1).step(outside.act, place, self.fails)
        except ValueError as error:
            return f"ValueError {error}"


@dataclass(frozen=True)
class Sleep:
    seconds: int

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:  # noqa: ARG002 (as all parts)
        await goal.sleep(self.seconds)


@dataclass(frozen=True)
class Question:
    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:  # noqa: ARG002 (as all parts)
        return await goal.ask(f"{place}?")


@dataclass(frozen=True)
class Signal:
    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:  # noqa: ARG002 (as all parts)
        return await goal.signal("go")


@dataclass(frozen=True)
class Gather:
    branches: tuple[tuple[Any, ...], ...]

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        inner = [in_order(branch, goal, f"{place}.{i}", outside) for i, branch in enumerate(self.branches)]
        return await goal.gather(*inner)


async def in_order(parts: tuple[Any, ...], goal: Goal, place: str, outside: Outside) -> list[Any]:
    return [await part.run(goal, f"{place}.{number}", outside) for number, part in enumerate(parts)]


leaf = st.one_of(
    st.just(Step("once")),  # one that fails may be unknown, and what a person then says need not be a failure
    st.builds(Step, st.sampled_from(["pure", "idempotent"]), st.booleans(), st.integers(0, 2)),
    st.builds(Sleep, st.integers(0, 50)),
    st.just(Question()),
    st.just(Signal()),
)
programs = st.recursive(
    st.lists(leaf, max_size=4).map(tuple),
    lambda inner: st.tuples(st.builds(Gather, st.lists(inner, min_size=1, max_size=3).map(tuple)), inner).map(
        lambda pair: (pair[0], *pair[1])
    ),
    max_leaves=6,
)


def steps_of(state: GoalState) -> set[str]:
    """The steps of a history, whatever order parallel ones came in and however a crash was recovered from."""
    return {call.call.step for call in state.calls.values()}


async def drive(world: World, flow: Flow[..., Any], outside: Outside, kill: tuple[str, int] | None) -> GoalState:
    """Run a goal to its end, answering what it asks; it dies once, at the nth time that a point is reached."""
    hits = 0

    def die() -> None:
        nonlocal hits
        hits += 1
        if kill is not None and hits == kill[1]:
            raise Died

    with failpoints.armed(kill[0] if kill else POINTS[0], die):
        for number in range(200):
            with suppress(Died):
                if not await world.store.list_goals():
                    await world.start(MindSpec("flow", at=flow.path))
                else:
                    await world.resume()
            if await world.store.list_goals():
                state = fold(await world.store.load("goal-a"))
                if state.termination is not None:
                    return state
                await help_on(world, state, number, outside)
    raise AssertionError("the goal never came to its end")


async def help_on(world: World, state: GoalState, number: int, outside: Outside) -> None:
    """Do what a person would: answer, signal, and settle what is unknown by looking at the world."""
    for name, call in state.open_calls.items():
        key = f"{number}/{name}"
        match call.call:
            case Wait(signal="go"):
                await world.store.post("goal-a", "signal", {"name": "go", "payload": "went"}, key=key)
            case Ask():
                payload = {"call_id": name, "decision": "answer", "value": "fine"}
                await world.store.post("goal-a", "decision", payload, key=key)
            case ToolCall(arguments={"args": [place, *_]}) if call.unknown is not None:
                verdict = "skip" if outside.effects[place] else "retry"
                payload = {"call_id": name, "decision": verdict, "value": place}
                await world.store.post("goal-a", "decision", payload, key=key)


def world_with(program: tuple[Any, ...]) -> tuple[World, Flow[[], list[Any]], Outside]:
    dead: set[str] = set()
    store = InMemoryStateStore(is_dead=dead.__contains__)
    outside = Outside(Counter())

    async def whole(goal: Goal) -> list[Any]:
        return await in_order(program, goal, "", outside)

    return World(store, store, dead=dead), Flow(whole), outside


@given(programs, st.sampled_from(POINTS), st.integers(1, 12))
@settings(max_examples=torture_size(small=60), deadline=None)
def test_a_flow_that_died_anywhere_ends_as_one_that_did_not(program: tuple[Any, ...], point: str, nth: int) -> None:
    async def both() -> None:
        world, flow, outside = world_with(program)
        clean = await drive(world, flow, outside, None)
        world, flow, outside_again = world_with(program)
        killed = await drive(world, flow, outside_again, (point, nth))
        assert killed.termination == clean.termination
        assert steps_of(killed) == steps_of(clean)
        for call in killed.calls.values():
            match call.call:
                case ToolCall(effect="once", arguments={"args": [place, *_]}):
                    assert outside_again.effects[place] == 1

    asyncio.run(both())
