"""Goals that clean up when they are cancelled, on each kind of state store, killed around every append."""

import asyncio
from typing import Any

import pytest

from perdure.errors import Conflict
from perdure.minds.flow.goal import Goal
from tests.kernel.world import World
from tests.minds.cleanup_life import Life, endings


async def forever() -> None:
    await asyncio.Event().wait()


def work(what: str) -> str:
    return what


async def undoes(goal: Goal) -> Any:
    await goal.options(effect="idempotent").step(work, "reserve")
    try:
        await goal.options(effect="idempotent").step(forever)
    finally:
        await goal.options(effect="idempotent").step(work, "undo")


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_cancelled_goal_cleans_up_wherever_it_dies(world: World, when: str, number: int) -> None:
    one = Life(undoes, world, **{f"die_{when}": number})  # type: ignore[arg-type]
    state = await one.ended()
    assert state.termination is not None
    assert (state.termination.reason, state.termination.detail) == ("cancelled", "no longer wanted")
    assert endings(state) == {"/work#0": "ok", "/forever#0": "cancelled", "/work#1": "ok"}


async def test_a_cancel_is_taken_once_and_shown_while_the_flow_cleans_up(world: World) -> None:
    one = Life(undoes, world, is_live=False)
    await one.begin()
    await one.cancel()
    await world.settle()
    (goal,) = await world.store.list_goals()
    assert goal.status == "open"
    assert goal.detail == "Cancelled by person (no longer wanted): its flow cleans up before the goal ends."
    assert not await world.store.post("goal-a", "cancel", {"reason": "no longer wanted"}, key="cancel-1")
    with pytest.raises(Conflict, match="another request with the key"):
        await world.store.post("goal-a", "cancel", {"reason": "no longer wanted", "now": True}, key="cancel-1")
    assert await world.store.inbox("goal-a") == []
