"""Recorded deadlines hold while no process runs the goal: what is posted after them settles nothing."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from perdure import Conflict, failpoints
from perdure.kernel.calls.decisions import choose
from perdure.kernel.events import Decision, MindSpec, Signal, content_of
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.loop import Loop
from perdure.minds.flow.goal import Goal
from tests.kernel.test_loop import Died
from tests.kernel.world import World
from tests.registered_flows import path_of

FlowFunction = Callable[[Goal], Coroutine[Any, Any, Any]]
SECOND_US = 1_000_000


async def asking(goal: Goal) -> str:
    try:
        return await goal.ask("Approve?", ["yes", "no"], timeout_s=75)
    except TimeoutError:
        return "late"


async def signalled(goal: Goal) -> list[Any]:
    found: list[Any] = []
    try:
        found.append(await goal.signal("paid", timeout_s=75))
    except TimeoutError:
        found.append("late")
    return [*found, await goal.signal("paid", timeout_s=1000)] if found == ["late"] else found


async def asking_within(goal: Goal) -> str:
    try:
        async with goal.timeout(75):
            return await goal.ask("Approve?", ["yes", "no"])
    except TimeoutError:
        return "late"


async def asking_until_the_earlier(goal: Goal) -> str:
    try:
        async with goal.timeout(70):
            try:
                return str(await goal.ask("Approve?", timeout_s=75))
            except TimeoutError:
                return "the question"
    except TimeoutError:
        return "the block"


ANSWER = ("decision", content_of(Decision("/ask#0", "answer", "yes")))
PAID = ("signal", content_of(Signal("paid", "card")))
CASES = [
    (asking, ANSWER, "late", "yes"),
    (signalled, PAID, ["late", "card"], ["card"]),
    (asking_within, ANSWER, "late", "yes"),
    (asking_until_the_earlier, ANSWER, "the block", "yes"),
]
each_case = pytest.mark.parametrize(
    ("fn", "posted", "late", "in_time"), CASES, ids=[case[0].__name__ for case in CASES]
)


async def parked(world: World, fn: FlowFunction) -> int:
    """Start a goal that parks; return when its question was asked."""
    ran = await world.start(MindSpec("flow", at=path_of(fn)))
    assert ran.outcome == "waiting"
    return world.clock.now


async def post(world: World, posted: tuple[str, dict[str, Any]], at_us: int) -> None:
    kind, payload = posted
    call = next((each for each in fold(await world.store.load("goal-a")).open_calls if "ask" in each), None)
    payload = payload | {"call_id": call} if kind == "decision" else payload
    await world.store.post("goal-a", kind, payload, key="k", created_us=at_us)


async def ended(world: World) -> GoalState:
    state = fold(await world.store.load("goal-a"))
    assert state.termination is not None
    assert state.termination.reason == "done", state.termination
    assert not state.open_calls
    return state


def value_of(state: GoalState) -> Any:
    assert state.termination is not None
    return state.termination.value


@pytest.mark.parametrize("is_settled", [True, False], ids=["settled", "resumed"])
@each_case
async def test_what_is_posted_after_a_deadline_is_late(
    world: World, fn: FlowFunction, posted: tuple[str, dict[str, Any]], late: Any, in_time: Any, is_settled: bool
) -> None:
    del in_time
    began_us = await parked(world, fn)
    world.clock.now = began_us + 100 * SECOND_US
    await post(world, posted, world.clock.now)
    if is_settled:
        await world.settle()
    await world.resume()
    assert value_of(await ended(world)) == late


@pytest.mark.parametrize("is_settled", [True, False], ids=["settled", "resumed"])
@each_case
async def test_what_was_posted_in_time_counts_also_when_it_is_taken_later(
    world: World, fn: FlowFunction, posted: tuple[str, dict[str, Any]], late: Any, in_time: Any, is_settled: bool
) -> None:
    del late
    began_us = await parked(world, fn)
    await post(world, posted, began_us + 60 * SECOND_US)
    world.clock.now = began_us + 100 * SECOND_US
    if is_settled:
        await world.settle()
    await world.resume()
    assert value_of(await ended(world)) == in_time


async def test_a_running_owner_takes_what_was_posted_in_time_before_it_records_the_deadline(world: World) -> None:
    world.park_after_s = 1000
    loops: list[Loop] = []
    world.watch = loops.append
    slept = world.clock.sleep

    async def sleep(seconds: float) -> None:
        if world.clock.now < 1_700_000_000_000_000 + 70 * SECOND_US:
            await slept(seconds)
            return
        await post(world, ANSWER, world.clock.now)  # nobody tells the owner, and the next thing it sees is the deadline
        world.clock.now += 100 * SECOND_US

    world.clock.sleep = sleep  # type: ignore[method-assign]
    await world.start(MindSpec("flow", at=path_of(asking)))
    assert value_of(await ended(world)) == "yes"
    assert len(loops) == 1


@pytest.mark.parametrize("point", ["kernel.append.before", "kernel.append.after"])
@each_case
async def test_a_death_at_the_append_of_the_deadline_changes_nothing(
    world: World, fn: FlowFunction, posted: tuple[str, dict[str, Any]], late: Any, in_time: Any, point: str
) -> None:
    del in_time
    began_us = await parked(world, fn)
    world.clock.now = began_us + 100 * SECOND_US
    await post(world, posted, world.clock.now)
    for hit in (1, 2, 3):
        hits = 0

        def die(hit: int = hit) -> None:
            nonlocal hits
            hits += 1
            if hits == hit:
                raise Died

        with failpoints.armed(point, die), suppress(Died, Conflict):
            await (world.settle() if hit == 1 else world.resume())
    if fold(await world.store.load("goal-a")).termination is None:
        await world.resume()
    state = await ended(world)
    assert value_of(state) == late
    assert await world.store.inbox("goal-a") == []


async def test_a_question_that_timed_out_takes_no_answer_and_says_when(world: World) -> None:
    began_us = await parked(world, asking)
    state = fold(await world.store.load("goal-a"))
    (call_id,) = state.open_calls
    said = rf"^{call_id} timed out at 2023-11-14 22:14:35 UTC\.$"
    assert choose(state, "answer", None, "yes", now_us=began_us).value == "yes"
    for named in (None, call_id):
        with pytest.raises(Conflict, match=said):
            choose(state, "answer", named, "yes", now_us=began_us + 76 * SECOND_US)
    world.clock.now = began_us + 76 * SECOND_US
    await world.resume()
    state = await ended(world)
    for named in (None, call_id):
        with pytest.raises(Conflict, match=said):
            choose(state, "answer", named, "yes", now_us=world.clock.now)
