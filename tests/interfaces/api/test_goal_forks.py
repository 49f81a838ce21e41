"""`POST /goals/{id}/fork`: places, repeated effects, and the start key."""

from typing import Any

import httpx
import pytest

from perdure import Conflict, Invalid, NotFound
from perdure.app import Perdure
from perdure.client import Client
from tests.interfaces.api.test_goals import ASKS, waiting


async def test_a_fork_is_made_by_a_step_and_takes_the_key(client: Client, home: Perdure) -> None:
    key = f"start-{id(client)}-taken"
    goal = await client.goals.create(plan=ASKS, key=key)
    await waiting(client, goal["id"])
    made = [await client.goals.fork(goal["id"], before="sure", take_key=True, key=f"t-{key}") for _ in range(2)]
    assert made[0]["id"] == made[1]["id"]
    found = await home.goals._store.started(key)
    assert found is not None
    assert found.goal_id == made[0]["id"]
    with pytest.raises(Invalid, match="has no start key"):
        await client.goals.fork(goal["id"], before="sure", take_key=True)
    with pytest.raises(NotFound, match="has no step 'refund'"):
        await client.goals.fork(goal["id"], after="refund")
    with pytest.raises(Conflict, match="is not settled yet"):
        await client.goals.fork(goal["id"], after="sure")


async def test_a_fork_that_would_repeat_an_effect_is_409_until_it_is_wanted(client: Client) -> None:
    goal = await client.goals.create(command="true")
    assert [event["seq"] async for event in client.goals.follow(goal["id"])] == [1, 2, 3, 4]
    with pytest.raises(Conflict, match="Or fork where nothing is repeated: --after command"):
        await client.goals.fork(goal["id"], 2)
    fork = await client.goals.fork(goal["id"], 2, repeat=["command"])
    assert fork["forked_from"] == {"goal_id": goal["id"], "seq": 2}


async def test_a_fork_before_a_step_that_may_have_happened_is_409_until_it_is_wanted(client: Client) -> None:
    goal = await client.goals.create(command="sleep 60")
    async for event in client.goals.follow(goal["id"]):
        if event["type"] == "action":
            break
    with pytest.raises(Conflict, match="would repeat command.1, which is `once`"):
        await client.goals.fork(goal["id"], before="command")
    await client.goals.cancel(goal["id"])
    assert [event["type"] async for event in client.goals.follow(goal["id"])][-1] == "termination"
    with pytest.raises(Conflict, match="would repeat command.1, .* add --repeat command"):
        await client.goals.fork(goal["id"], before="command")
    fork = await client.goals.fork(goal["id"], before="command", repeat=["command"])
    assert fork["forked_from"] == {"goal_id": goal["id"], "seq": 1}
    await client.goals.cancel(fork["id"])


@pytest.mark.parametrize(
    "body", [{}, {"at": 1, "before": "sure"}, {"before": ""}, {"at": 1, "repeat": "sure"}], ids=str
)
async def test_a_fork_that_is_invalid_is_422(client: Client, known: httpx.AsyncClient, body: dict[str, Any]) -> None:
    goal = await client.goals.create(plan=ASKS)
    await waiting(client, goal["id"])
    assert (await known.post(f"/api/v1/goals/{goal['id']}/fork", json=body)).status_code == 422
