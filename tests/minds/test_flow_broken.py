"""An error of ours after a step of a flow has begun: a once step is unknown, and the flow waits for a decision."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.errors import StepFailed
from perdure.kernel.calls.decisions import choose
from perdure.kernel.events import Termination
from perdure.kernel.history.replay import replay
from perdure.kernel.loop import Loop
from perdure.minds.flow.goal import Goal
from tests.kernel.test_decisions import post
from tests.kernel.world import World
from tests.minds.test_flow import ended, run

CALLS: Counter[str] = Counter()
TOO_LARGE = 2
"""How many results no memory is left for."""


@pytest.fixture(autouse=True)
def no_calls() -> Iterator[None]:
    CALLS.clear()
    yield
    CALLS.clear()


class Result(dict[str, int]):
    """A result that is JSON, and for which our own look at it finds no memory."""

    def items(self) -> Any:
        if CALLS["send"] < TOO_LARGE:
            raise MemoryError
        return super().items()


def send() -> Any:
    CALLS["send"] += 1
    return Result(sent=1)


@pytest.mark.parametrize(("verdict", "value", "calls"), [("skip", {"sent": 0}, 1), ("retry", {"sent": 1}, 2)])
async def test_a_once_step_that_we_could_not_record_waits_for_a_person_and_the_flow_continues(
    world: World, verdict: str, value: dict[str, int], calls: int
) -> None:
    async def sends(goal: Goal) -> Any:
        return await goal.options(retry=4).step(send)

    ran = await run(world, sends)
    assert (ran.outcome, ran.state.waiting_for) == ("waiting", "person")
    assert CALLS["send"] == 1
    await post(world, choose(ran.state, verdict, None, value if verdict == "skip" else None))
    assert ended(await world.resume()) == Termination("done", value=value)
    assert CALLS["send"] == calls


async def test_an_abort_of_a_step_that_we_could_not_record_ends_the_flow(world: World) -> None:
    async def sends(goal: Goal) -> Any:
        return await goal.options(retry=4).step(send)

    ran = await run(world, sends)
    await post(world, choose(ran.state, "abort", None))
    assert ended(await world.resume()).reason == "failed"
    assert CALLS["send"] == 1


async def test_a_decision_reaches_the_flow_while_another_branch_still_runs(world: World) -> None:
    loops: list[Loop] = []
    may_end, is_unknown = asyncio.Event(), asyncio.Event()

    async def long() -> str:
        await may_end.wait()
        return "long"

    async def branch(goal: Goal) -> Any:
        sent = await goal.options(retry=4).step(send)
        may_end.set()
        return sent

    async def both(goal: Goal) -> list[Any]:
        return list(await goal.gather(branch(goal), goal.step(long)))

    def watch(loop: Loop) -> None:
        loops.append(loop)
        loop.journal.listen(
            lambda _events, state: is_unknown.set() if any(c.unknown for c in state.open_calls.values()) else None
        )

    world.watch = watch
    running = asyncio.create_task(run(world, both))
    async with asyncio.timeout(20):
        await is_unknown.wait()
        await post(world, choose(loops[0].state, "retry", None))
        loops[0].check_inbox()
        ran = await running
    assert ended(ran).value == [{"sent": 1}, "long"]
    assert replay(await world.store.load("goal-a"), await world.store.find("goal-a")).state.status == "done"


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_step_that_may_be_repeated_and_that_we_could_not_record_has_failed_and_is_tried_again(
    world: World, effect: Any
) -> None:
    async def sends(goal: Goal) -> Any:
        return await goal.options(effect=effect, retry=4).step(send)

    assert ended(await run(world, sends)).value == {"sent": 1}
    assert CALLS["send"] == 2


async def test_a_pure_step_that_we_could_not_record_is_a_failure_that_the_flow_may_catch(world: World) -> None:
    async def sends(goal: Goal) -> str:
        try:
            await goal.options(effect="pure").step(send)
        except StepFailed as error:
            return error.code
        return "sent"

    assert ended(await run(world, sends)).value == "internal"


async def test_what_the_function_itself_raises_stays_a_failure(world: World) -> None:
    def fail() -> None:
        CALLS["fail"] += 1
        raise MemoryError("of its own")

    async def fails(goal: Goal) -> Any:
        return await goal.options(retry=2).step(fail)

    assert ended(await run(world, fails)).reason == "failed"
    assert CALLS["fail"] == 2


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a function waits for; it is opened at the end, so that no thread is left."""
    gate = threading.Event()
    yield gate
    gate.set()


async def test_a_once_step_whose_thread_runs_on_when_its_goal_is_cancelled_is_unknown(
    world: World, gate: threading.Event
) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def pay() -> None:
        loop.call_soon_threadsafe(begun.set)
        gate.wait()

    async def pays(goal: Goal) -> None:
        await goal.options(check=lambda: False).step(pay)

    loops: list[Loop] = []
    world.watch = loops.append
    running = asyncio.create_task(run(world, pays))
    await begun.wait()
    await world.store.post("goal-a", "cancel", {"by": "person"}, key="c")
    loops[0].check_inbox()
    state = (await asyncio.wait_for(running, 10)).state
    (call,) = state.calls.values()
    assert state.termination is not None
    assert state.termination.reason == "cancelled"
    assert call.unknown is not None
    assert "still runs on its thread" in call.unknown.why
    assert call.outcome is None


async def test_a_check_is_not_believed_while_the_function_that_took_too_long_still_runs(
    world: World, gate: threading.Event
) -> None:
    def pay() -> None:
        CALLS["pay"] += 1
        gate.wait()

    async def pays(goal: Goal) -> None:
        await goal.options(retry=3, timeout_s=0.01, check=lambda: False).step(pay)

    assert str(ended(await run(world, pays)).detail).startswith("timeout: ")
    assert CALLS["pay"] == 1


@pytest.mark.parametrize(("has_begun", "calls"), [(True, 1), (False, 3)])
async def test_a_thread_whose_start_fails_is_tried_again_only_if_its_function_was_not_called(
    world: World, monkeypatch: pytest.MonkeyPatch, has_begun: bool, calls: int
) -> None:
    start = threading.Thread.start

    def fails(thread: threading.Thread) -> None:
        CALLS["start"] += 1
        is_last = CALLS["start"] == 3
        if has_begun or is_last:
            start(thread)
        if not is_last:
            while has_begun and not CALLS["pay"]:
                pass
            raise MemoryError

    def pay() -> None:
        CALLS["pay"] += 1

    async def pays(goal: Goal) -> None:
        await goal.options(retry=3).step(pay)

    monkeypatch.setattr(threading.Thread, "start", fails)
    ran = await run(world, pays)
    monkeypatch.undo()
    assert (CALLS["pay"], CALLS["start"]) == (1, calls)
    assert ran.state.waiting_for == ("person" if has_begun else None)
