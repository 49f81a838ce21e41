"""The key under which a step is run: known to its function and its check, and the same when it is run again."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from perdure import Goal, Invalid, current_step, failpoints
from perdure.kernel.events import MindSpec
from perdure.kernel.loop import RunResult
from tests.kernel.lives import Died
from tests.kernel.world import World
from tests.registered_flows import path_of

KEYS: list[str] = []


@pytest.fixture(autouse=True)
def no_keys() -> Iterator[None]:
    KEYS.clear()
    yield
    KEYS.clear()


def key() -> str:
    return current_step().idempotency_key


def on_a_thread() -> str:
    KEYS.append(key())
    return KEYS[-1]


async def here() -> str:
    KEYS.append(await asyncio.to_thread(key))
    return key()


def did_it_happen() -> bool:
    KEYS.append(key())
    return False


def fails_once() -> str:
    KEYS.append(key())
    if len(KEYS) == 1:
        raise ValueError("not yet")
    return KEYS[-1]


async def start(world: World, fn: Any) -> RunResult:
    return await world.start(MindSpec("flow", at=path_of(fn)))


def value(ran: RunResult) -> Any:
    assert ran.state.termination is not None
    return ran.state.termination.value


def die() -> None:
    raise Died


async def test_a_function_that_never_saw_the_goal_knows_its_key(world: World) -> None:
    async def both(goal: Goal) -> list[str]:
        branches = await goal.gather(goal.step(on_a_thread), goal.step(here))
        return [
            *branches,
            await goal.options(effect="pure").step(on_a_thread),
            await goal.step(key),
        ]

    assert value(await start(world, both)) == [
        "goal-a/g1.0/on_a_thread#0.1",
        "goal-a/g1.1/here#0.1",
        "goal-a//on_a_thread#0.1",
        "goal-a//key#0.1",
    ]


@pytest.mark.parametrize("step", [on_a_thread, here])
@pytest.mark.parametrize("point", ["kernel.effect.before", "kernel.effect.after"])
async def test_a_step_that_is_run_again_after_a_crash_has_the_same_key(world: World, step: Any, point: str) -> None:
    async def one(goal: Goal) -> str:
        return str(await goal.options(effect="idempotent").step(step))

    with failpoints.armed(point, die), pytest.raises(Died):
        await start(world, one)
    wanted = f"goal-a//{step.__name__}#0.1"
    assert value(await world.resume()) == wanted
    assert [wanted] * (1 + point.endswith("after")) == KEYS


async def test_a_check_knows_the_key_of_the_step_that_it_asks_about_and_no_later_step(world: World) -> None:
    async def one(goal: Goal) -> str:
        return str(await goal.options(check=did_it_happen).step(on_a_thread))

    with failpoints.armed("kernel.effect.before", die), pytest.raises(Died):
        await start(world, one)
    await world.resume()
    assert KEYS == ["goal-a//on_a_thread#0.1"] * 2
    with pytest.raises(Invalid):
        key()


async def test_another_try_is_another_call_and_has_another_key(world: World) -> None:
    async def one(goal: Goal) -> str:
        return str(await goal.options(retry=2).step(fails_once))

    assert value(await start(world, one)) == "goal-a//fails_once#0.2"
    assert KEYS == ["goal-a//fails_once#0.1", "goal-a//fails_once#0.2"]


async def test_every_attempt_has_the_key_of_its_step_also_after_a_crash_and_a_retry_of_the_goal(world: World) -> None:
    def fails_twice() -> str:
        KEYS.append(current_step().step_key)
        if len(KEYS) <= 3:
            raise ValueError("not yet")
        return KEYS[-1]

    async def two(goal: Goal) -> list[str]:
        options = goal.options(effect="idempotent", retry=2, name="pay")
        return [await options.step(fails_twice), await options.step(fails_twice)]

    with failpoints.armed("kernel.effect.after", die), pytest.raises(Died):
        await start(world, two)
    assert (await world.resume()).state.status == "failed"
    assert value(await world.retry()) == ["goal-a//pay#0", "goal-a//pay#1"]
    assert KEYS == ["goal-a//pay#0"] * 4 + ["goal-a//pay#1"]


async def test_outside_of_a_step_there_is_no_key(world: World) -> None:
    async def asks(goal: Goal) -> str:
        await goal.step(on_a_thread)
        try:
            return key()
        except Invalid as error:
            return error.detail

    assert (
        value(await start(world, asks))
        == "current_step() was called outside of a step: only the function and the check of a step have one."
    )


async def test_a_key_asked_for_by_a_thread_of_ones_own_is_a_failure_that_says_so(world: World) -> None:
    async def in_an_executor() -> str:
        return await asyncio.get_running_loop().run_in_executor(None, key)

    async def asks(goal: Goal) -> str:
        try:
            return str(await goal.step(in_an_executor))
        except Invalid as error:
            return error.detail

    assert value(await start(world, asks)).startswith(
        "current_step() was called outside of a step: only the function and the check of a step have one."
    )
