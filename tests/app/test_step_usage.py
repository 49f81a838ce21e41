"""What steps use counts for the limits of their goal, on each kind of store."""

import asyncio
import threading
from contextlib import suppress
from typing import Literal

import pytest

from perdure import Goal, GoalWaiting, Invalid, Limits, current_step, flow
from perdure.app.goals.goals import Goals

CALLS: list[int] = []
BEGUN, RELEASE = threading.Event(), threading.Event()


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()
    BEGUN.clear()
    RELEASE.clear()


def think(number: int) -> int:
    CALLS.append(number)
    current_step().usage(tokens=100, cost_usd=0.5)
    current_step().record(model="m-1")
    return number


@flow
async def thinking(goal: Goal) -> int:
    for number in range(4):
        await goal.step(think, number)
    return 4


@pytest.mark.parametrize(
    ("limits", "done", "raised"),
    [
        (Limits(tokens=250), 3, Limits(tokens=1000)),
        (Limits(tokens=200), 2, Limits(tokens=1000)),
        (Limits(usd=1.2), 3, Limits(usd=10)),
        (Limits(usd=0.5, tokens=300), 1, Limits(usd=10, tokens=1000)),
    ],
)
async def test_a_goal_waits_when_its_steps_have_used_a_limit_up(
    goals: Goals, limits: Limits, done: int, raised: Limits
) -> None:
    with pytest.raises(GoalWaiting) as waits:
        await goals.options(key="think", limits=limits).run(thinking)
    assert (waits.value.waiting_for, waits.value.exit_code) == ("limit", 6)
    assert list(range(done)) == CALLS
    with pytest.raises(GoalWaiting):
        await goals.resume(waits.value.id)
    result = await goals.resume(waits.value.id, limits=raised)
    assert (result.value, CALLS) == (4, [0, 1, 2, 3])
    state = await goals.state(waits.value.id)
    assert (state.used.tokens, state.used.usd) == (400, 2.0)
    outcome = state.calls["/think#0.1"].outcome
    assert outcome is not None
    assert outcome.meta == {"model": "m-1"}
    assert (await goals.replay(waits.value.id)).state.status == "done"


async def test_a_limit_that_is_used_up_already_cannot_be_set(goals: Goals) -> None:
    with pytest.raises(GoalWaiting) as waits:
        await goals.options(limits=Limits(tokens=150)).run(thinking)
    for wrong in (Limits(tokens=200), Limits(tokens=-1), 5):
        with pytest.raises(Invalid):
            await goals.resume(waits.value.id, limits=wrong)  # type: ignore[arg-type]
    assert (await goals.state(waits.value.id)).limits.tokens == 150


async def think_for_ever() -> None:
    current_step().usage(tokens=100, cost_usd=0.5)
    current_step().record(model="m-1")
    CALLS.append(1)
    BEGUN.set()
    await asyncio.Event().wait()


def think_on_a_thread() -> None:
    current_step().usage(tokens=100, cost_usd=0.5)
    CALLS.append(1)
    BEGUN.set()
    RELEASE.wait(30)


async def think_and_fail() -> None:
    current_step().usage(tokens=100, cost_usd=0.5)
    CALLS.append(1)
    raise ValueError("no")


def _await_begin() -> None:
    assert BEGUN.wait(30)


@flow
async def gives_up(goal: Goal, effect: Literal["idempotent", "once"], *, is_async: bool) -> str:
    options = goal.options(effect=effect)
    thought = options.step(think_for_ever) if is_async else options.step(think_on_a_thread)
    waiting = asyncio.create_task(thought)
    await goal.step(_await_begin)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    return await goal.step(str, "after")


@pytest.mark.parametrize("effect", ["idempotent", "once"])
@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_cancelled_step_had_used_counts_for_the_limits(
    goals: Goals, effect: Literal["idempotent", "once"], *, is_async: bool
) -> None:
    with pytest.raises(GoalWaiting) as waits:
        await goals.options(limits=Limits(tokens=100)).run(gives_up, effect, is_async=is_async)
    RELEASE.set()
    state = await goals.state(waits.value.id)
    assert (waits.value.waiting_for, state.used.tokens, state.used.usd) == ("limit", 100, 0.5)
    [cancelled] = [call.outcome for call in state.calls.values() if "think" in call.call.step]
    assert cancelled is not None
    assert cancelled.error is not None
    assert (cancelled.error.code, cancelled.usage) == ("cancelled", {"tokens": 100, "cost_usd": 0.5})
    assert cancelled.meta == ({"model": "m-1"} if is_async else None)
    result = await goals.resume(waits.value.id, limits=Limits(tokens=1000))
    assert (result.value, CALLS) == ("after", [1])
    assert (await goals.replay(waits.value.id)).state.used.tokens == 100


@flow
async def fails_and_retries(goal: Goal) -> None:
    await goal.options(effect="idempotent", retry=3).step(think_and_fail)


async def test_what_each_failed_attempt_had_used_counts_for_the_limits(goals: Goals) -> None:
    with pytest.raises(GoalWaiting) as waits:
        await goals.options(limits=Limits(tokens=200)).run(fails_and_retries)
    assert (waits.value.waiting_for, CALLS) == ("limit", [1, 1])
    assert (await goals.state(waits.value.id)).used.tokens == 200


@flow
async def asks_after_thinking(goal: Goal) -> None:
    await goal.step(think, 1)
    await goal.ask("Publish?")


@flow
async def gives_up_a_child(goal: Goal) -> str:
    try:
        async with goal.timeout(1.5):
            await goal.child(asks_after_thinking)
    except TimeoutError:
        return "too late"
    return "in time"


async def test_what_a_cancelled_child_had_used_counts_for_its_parent(goals: Goals) -> None:
    result = await goals.run(gives_up_a_child)
    used = (await goals.state(result.id)).used
    assert (result.value, used.tokens, used.usd) == ("too late", 100, 0.5)
