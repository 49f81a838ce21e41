"""Cancelling goals whose flow cleans up, over HTTP."""

import pytest

from perdure import Conflict, Goal, GoalWaiting, flow
from perdure.app import Perdure
from perdure.client import Client
from perdure.interfaces.api.server import Running

EFFECTS: list[str] = []


def act(what: str) -> str:
    EFFECTS.append(what)
    return what


@flow(cleanup=True)
async def booking(goal: Goal) -> str:
    await goal.options(effect="idempotent").step(act, "book")
    try:
        return str(await goal.ask("Keep it?"))
    finally:
        await goal.options(effect="idempotent").step(act, "undo")


async def parked(home: Perdure) -> str:
    EFFECTS.clear()
    with pytest.raises(GoalWaiting) as waiting:
        await home.goals.run(booking)
    return waiting.value.id


async def test_the_server_cleans_up_a_goal_that_no_worker_runs(client: Client, home: Perdure) -> None:
    goal_id = await parked(home)
    for _ in range(2):
        seen = await client.goals.cancel(goal_id, reason="withdrawn", key=f"c-{goal_id}")
        assert (seen["status"], seen["detail"]) == ("cancelled", "withdrawn")
    assert EFFECTS == ["book", "undo"]
    (cancel,) = [event async for event in client.goals.events(goal_id) if event["type"] == "cancel"]
    assert cancel["payload"] == {"reason": "withdrawn"}, "it is by a person unless it names another"
    with pytest.raises(Conflict):
        await client.goals.cancel(goal_id)


async def test_the_server_cleans_up_its_own_goals(client: Client, home: Perdure, server: Running) -> None:
    goal_id = await parked(home)
    await client.goals.resume(goal_id)
    await server.surface.worker._goals.wait_for_end(goal_id, 0.2)
    seen = await client.goals.cancel(goal_id, reason="withdrawn")
    assert (seen["status"], seen["detail"]) == ("cancelled", "withdrawn")
    assert EFFECTS == ["book", "undo"]


async def test_now_ends_a_goal_without_cleanup(client: Client, home: Perdure) -> None:
    seen = await client.goals.cancel(await parked(home), now=True)
    assert seen["status"] == "cancelled"
    assert EFFECTS == ["book"]
