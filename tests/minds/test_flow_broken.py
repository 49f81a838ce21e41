"""An error of ours after a step of a flow has begun: a once step is unknown, and the flow waits for a decision."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.errors import StepFailed
from perdure.kernel.decisions import choose
from perdure.kernel.events import Termination
from perdure.kernel.loop import Loop
from perdure.kernel.replay import replay
from perdure.minds.flow import Goal
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


class Result:
    """A result that is JSON, and for which our own look at it finds no memory."""

    def model_dump(self, mode: str | None = None) -> dict[str, int]:
        if mode is None and CALLS["send"] < TOO_LARGE:
            raise MemoryError
        return {"sent": 1}


def send() -> Any:
    CALLS["send"] += 1
    return Result()


@pytest.mark.parametrize(("verdict", "value", "calls"), [("skip", {"sent": 0}, 1), ("retry", {"sent": 1}, 2)])
async def test_a_once_step_that_we_could_not_record_waits_for_a_person_and_the_flow_goes_on(
    world: World, verdict: str, value: dict[str, int], calls: int
) -> None:
    async def sends(goal: Goal) -> Any:
        return await goal.step(send, retry=3)

    ran = await run(world, sends)
    assert (ran.outcome, ran.state.waiting_for) == ("waiting", "person")
    assert CALLS["send"] == 1
    await post(world, choose(ran.state, verdict, None, value if verdict == "skip" else None))
    assert ended(await world.resume()) == Termination("done", value=value)
    assert CALLS["send"] == calls


async def test_an_abort_of_a_step_that_we_could_not_record_ends_the_flow(world: World) -> None:
    async def sends(goal: Goal) -> Any:
        return await goal.step(send, retry=3)

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
        sent = await goal.step(send, retry=3)
        may_end.set()
        return sent

    async def both(goal: Goal) -> list[Any]:
        return await goal.gather(branch(goal), goal.step(long))

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
        loops[0].look()
        ran = await running
    assert ended(ran).value == [{"sent": 1}, "long"]
    assert replay(await world.store.load("goal-a"), await world.store.find("goal-a")).state.status == "done"


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_step_that_may_be_repeated_and_that_we_could_not_record_has_failed_and_is_tried_again(
    world: World, effect: Any
) -> None:
    async def sends(goal: Goal) -> Any:
        return await goal.step(send, effect=effect, retry=3)

    assert ended(await run(world, sends)).value == {"sent": 1}
    assert CALLS["send"] == 2


async def test_a_pure_step_that_we_could_not_record_is_a_failure_that_the_flow_may_catch(world: World) -> None:
    async def sends(goal: Goal) -> str:
        try:
            await goal.step(send, effect="pure")
        except StepFailed as error:
            return error.code
        return "sent"

    assert ended(await run(world, sends)).value == "internal"


async def test_what_the_function_itself_raises_stays_a_failure(world: World) -> None:
    def fail() -> None:
        CALLS["fail"] += 1
        raise MemoryError("of its own")

    async def fails(goal: Goal) -> Any:
        return await goal.step(fail, retry=1)

    assert ended(await run(world, fails)).reason == "failed"
    assert CALLS["fail"] == 2
