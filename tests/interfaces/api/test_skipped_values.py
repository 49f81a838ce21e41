"""A value for a skipped step over HTTP: one that does not fit is rejected, and the key of the call stays free."""

import threading
from datetime import date
from typing import Any

import httpx
import pytest

from perdure import Goal, GoalWaiting, Invalid, flow
from perdure.app import Perdure
from perdure.client import Client


def deliver() -> date:
    found: Any = threading.Lock()
    return found  # type: ignore[no-any-return] # it cannot be stored


@flow
async def delivering(goal: Goal) -> date:
    return await goal.step(deliver)


async def unknown(home: Perdure) -> str:
    with pytest.raises(GoalWaiting) as waiting:
        await home.goals.run(delivering)
    return waiting.value.id


async def test_a_value_that_does_not_fit_is_rejected(known: httpx.AsyncClient, home: Perdure) -> None:
    goal_id = await unknown(home)
    events = await home.goals.events(goal_id)
    asked = {"decision": "skip", "value": "someday"}
    answer = await known.post(f"/api/v1/goals/{goal_id}/decisions", json=asked, headers={"Idempotency-Key": "skip"})
    assert answer.status_code == 422
    assert "The value for /deliver#0 does not fit what its function returns" in answer.json()["detail"]
    assert await home.goals.events(goal_id) == events
    assert await home.goals.pending(goal_id) == []


async def test_a_call_that_was_rejected_leaves_its_key_free(client: Client, home: Perdure) -> None:
    goal_id = await unknown(home)
    with pytest.raises(Invalid, match="does not fit"):
        await client.goals.decide(goal_id, "skip", value="someday", key="skip")
    await client.goals.decide(goal_id, "skip", value="2026-11-16", key="skip")
    assert (await home.goals.resume(goal_id)).value == date(2026, 11, 16)
