"""Steps that a flow cancels and that do not simply end: threads, forked processes, functions that swallow cancels."""

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from perdure.app.wire.calls import call_wire, state_of
from perdure.kernel.events import MindSpec
from perdure.kernel.fold import GoalState
from perdure.minds.flow.goal import Goal
from tests.kernel.world import World
from tests.minds.cleanup_life import FlowFunction
from tests.registered_flows import path_of

LEAVE = threading.Event()
BEGUN = threading.Event()


def blocks() -> None:
    BEGUN.set()
    LEAVE.wait(30)


async def waits() -> None:
    BEGUN.set()
    await asyncio.Event().wait()


async def swallows() -> None:
    BEGUN.set()
    while not LEAVE.is_set():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(30)


def quick() -> str:
    return "quick"


def cancelling(fn: Any, check: Any = None, effect: Any = "once") -> FlowFunction:
    """Make a flow that cancels a step which has begun, and goes on."""

    async def cancels_its_step(goal: Goal) -> Any:
        task = asyncio.create_task(goal.options(effect=effect, check=check, id="risky").step(fn))
        while not BEGUN.is_set():  # noqa: ASYNC110 (a thread sets it)
            await asyncio.sleep(0.001)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return await goal.options(effect="idempotent").step(quick)

    return cancels_its_step


async def ended(world: World, fn: FlowFunction) -> GoalState:
    BEGUN.clear()
    LEAVE.clear()
    world.end_within_s = 0.1
    try:
        state = (await world.start(MindSpec("flow", at=path_of(fn)))).state
    finally:
        LEAVE.set()
    assert state.termination is not None
    assert (state.termination.reason, state.termination.value) == ("done", "quick")
    return state


@pytest.mark.parametrize(
    ("fn", "check", "happened", "said"),
    [
        (waits, None, "unknown", "cancelled, effect unknown"),
        (waits, lambda: False, "no", "cancelled, no effect"),
        (waits, lambda: True, "yes", "cancelled, effect happened"),
        (blocks, None, "unknown", "cancelled, effect unknown"),
        (blocks, lambda: False, "unknown", "cancelled, effect unknown"),
        (swallows, None, "unknown", "cancelled, effect unknown"),
        (swallows, lambda: False, "unknown", "cancelled, effect unknown"),
    ],
)
async def test_the_effect_of_a_cancelled_once_step_is_what_its_check_knows(
    world: World, fn: Any, check: Any, happened: str, said: str
) -> None:
    state = await ended(world, cancelling(fn, check))
    call = state.calls["/@risky.1"]
    assert call.outcome is not None
    assert (call.outcome.ok, call.outcome.happened) == (False, happened)
    assert state_of(call) == said
    assert call_wire(state, call)["happened"] == happened
    assert "/@risky.2" not in state.calls


@pytest.mark.parametrize("fn", [waits, blocks, swallows], ids=lambda fn: fn.__name__)
async def test_an_idempotent_step_is_cancelled_without_a_word_on_its_effect(world: World, fn: Any) -> None:
    call = (await ended(world, cancelling(fn, effect="idempotent"))).calls["/@risky.1"]
    assert call.outcome is not None
    assert call.outcome.happened is None
    assert state_of(call) == "cancelled"
