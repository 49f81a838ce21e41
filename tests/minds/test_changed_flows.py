"""Code that is not what wrote a history: nothing is appended, and a fork before the step that is named runs it."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from perdure import Goal
from perdure.kernel.events import MindSpec
from perdure.kernel.fold import fold
from perdure.kernel.history.forking import ForkRequest, fork_point
from perdure.kernel.history.repetition import begun_once
from perdure.minds.flow.execution.recorded_steps import ChangedFlow
from perdure.minds.flow.flow import Flow
from perdure.minds.flow.registry import find_flow
from tests.kernel.world import World

Code = Callable[..., Coroutine[Any, Any, Any]]


async def say(word: str) -> str:
    """Not on a thread: so what is begun together ends together, in that order."""
    return word


async def line(goal: Goal, *words: str) -> str:
    for word in words:
        await goal.options(name=word).step(say, word)
    return words[-1]


async def asks(goal: Goal, *words: str) -> str:
    await line(goal, *words)
    return str(await goal.ask("Well?"))


async def began(goal: Goal) -> list[str]:
    """Begin a, b and c first; d, e and f when those have ended; one branch then waits for a person."""
    return list(await goal.gather(asks(goal, "a", "d"), line(goal, "b", "e"), line(goal, "c", "f")))


async def two_changed(goal: Goal) -> list[str]:
    return list(await goal.gather(asks(goal, "a", "x"), line(goal, "y", "e"), line(goal, "c", "f")))


async def ends_early(goal: Goal) -> list[str]:
    return list(await goal.gather(asks(goal, "a", "d"), line(goal, "b"), line(goal, "c", "f")))


async def ends_early_beside_a_change(goal: Goal) -> list[str]:
    return list(await goal.gather(asks(goal, "a", "d"), line(goal, "b"), line(goal, "c", "x")))


async def fewer(goal: Goal) -> list[str]:
    return list(await goal.gather(asks(goal, "a", "x"), line(goal, "b", "e")))


async def asked_before(goal: Goal) -> list[str]:
    return [await goal.ask("First?"), *await began(goal)]


async def not_at_all(goal: Goal) -> list[str]:
    return [await goal.step(say, "nothing")]


async def start(world: World) -> Flow[..., list[str]]:
    flow = Flow(began)
    assert (await world.start(MindSpec("flow", at=flow.path))).state.waiting_for == "person"
    return find_flow(flow.path)


@pytest.mark.parametrize(
    ("code", "step"),
    [
        (two_changed, "g1.1/b#0"),
        (ends_early, "g1.1/e#0"),
        (ends_early_beside_a_change, "g1.1/e#0"),
        (fewer, "g1.2/c#0"),
        (asked_before, "g1.0/a#0"),
        (not_at_all, "g1.0/a#0"),
    ],
)
async def test_of_all_steps_that_are_not_asked_for_the_first_is_named_and_a_fork_before_it_continues(
    world: World, code: Code, step: str
) -> None:
    flow = await start(world)
    before = await world.store.load("goal-a")
    seq = next(event.seq for event in before if f'"call_id":"{step}.1"' in event.payload)
    flow.fn = code
    with pytest.raises(ChangedFlow) as refused:
        await world.resume()
    assert f"Event {seq} of the history is step {step}; " in refused.value.detail
    assert refused.value.detail.endswith(f": perdure goal fork goal-a --before {refused.value.before}")
    assert await world.store.load("goal-a") == before
    repeat = tuple(call.call.step for call in begun_once(fold(before[: seq - 1])))
    assert fork_point(before, ForkRequest(before=refused.value.before, repeat=repeat)) == seq - 1
    forked = await world.fork(seq - 1)
    assert step not in {call.call.step for call in forked.calls.values()}
    ran = await world.resume("goal-f")
    assert ran.outcome in ("ended", "waiting")
    assert ran.state.termination is None or ran.state.termination.reason == "done"


async def test_what_is_open_before_the_first_step_that_differs_is_done_again_in_the_fork(world: World) -> None:
    flow = await start(world)
    flow.fn = two_changed
    with pytest.raises(ChangedFlow) as refused:
        await world.resume()
    assert refused.value.before == "b"
    (seq,) = [
        event.seq
        for event in await world.store.load("goal-a")
        if event.type == "action" and '"g1.1/b#0.1"' in event.payload
    ]
    forked = await world.fork(seq - 1)
    assert forked.begun.voided == ("g1.0/a#0.1",)
    ran = await world.resume("goal-f")
    assert [call.call.step for call in ran.state.calls.values()] == [
        "g1.0/a#0", "g1.1/y#0", "g1.2/c#0", "g1.0/x#0", "g1.1/e#0", "g1.2/f#0", "g1.0/ask#0",
    ]  # fmt: skip
    flow.fn = began
    assert (await world.resume("goal-a")).state.waiting_for == "person"
