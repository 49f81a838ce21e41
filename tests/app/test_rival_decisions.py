"""Two decisions on one call at the same moment: one is acknowledged, and that one is recorded. On every store."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict
from perdure.app.goals.goals import Goals
from perdure.app.wire.goal_view import GoalView
from tests.contracts.conftest import goals_url, place, stored
from tests.contracts.histories import Stored
from tests.waiting import RIVALS, WaitsFor, waiting_goal, worker_of

__all__ = ["goals_url", "place", "stored"]

Rival = Callable[[], Awaitable[GoalView]]
WAITS: tuple[WaitsFor, ...] = ("unknown", "approval")


class Overtaken:
    """A store whose next post is overtaken by a rival, after everything that its caller has looked at before."""

    def __init__(self, stored: Stored, rival: Rival) -> None:
        self._store = stored.store
        self._rival: Rival | None = rival

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def post(self, *args: Any, **options: Any) -> bool:
        rival, self._rival = self._rival, None
        if rival is not None:
            await rival()
        return await self._store.post(*args, **options)


def goals_of(stored: Stored, home: Path) -> Goals:
    return Goals(home, stored.store, stored.leases)


def overtaken(stored: Stored, home: Path, rival: Rival) -> Goals:
    store: Any = Overtaken(stored, rival)
    return Goals(home, store, stored.leases)


async def decided(goals: Goals, goal_id: str) -> list[str]:
    """Return what was decided: what is recorded, and what waits for the owner of the goal."""
    recorded = [event.content()["decision"] for event in await goals.history(goal_id) if event.type == "decision"]
    return recorded + [row.payload["decision"] for row in await goals.pending(goal_id)]


@pytest.mark.parametrize("is_held", [False, True], ids=["recorded at once", "left to the owner"])
@pytest.mark.parametrize("waits_for", WAITS)
async def test_a_decision_that_is_overtaken_is_rejected_with_what_was_decided(
    stored: Stored, tmp_path: Path, waits_for: WaitsFor, is_held: bool
) -> None:
    await stored.leases.renew(worker_of(tmp_path), 60)
    goal_id = await waiting_goal(stored.store, waits_for, tmp_path, is_held=is_held)
    goals = goals_of(stored, tmp_path)
    first, second = RIVALS[waits_for]
    late = overtaken(stored, tmp_path, lambda: goals.decide(goal_id, first))
    with pytest.raises(Conflict, match=rf"^pay\.1 was already decided: {first}\.$"):
        await late.decide(goal_id, second)
    assert await decided(goals, goal_id) == [first]


@pytest.mark.parametrize("waits_for", WAITS)
async def test_of_many_decisions_at_once_one_is_acknowledged_and_recorded(
    stored: Stored, tmp_path: Path, waits_for: WaitsFor
) -> None:
    goal_id = await waiting_goal(stored.store, waits_for, tmp_path)
    goals = goals_of(stored, tmp_path)
    wanted = RIVALS[waits_for] * 4
    done = await asyncio.gather(*(goals.decide(goal_id, each) for each in wanted), return_exceptions=True)
    accepted = [each for each, result in zip(wanted, done, strict=True) if isinstance(result, GoalView)]
    assert [type(result) for result in done if not isinstance(result, GoalView)] == [Conflict] * 7
    assert await decided(goals, goal_id) == accepted


@pytest.mark.parametrize("is_held", [False, True], ids=["recorded at once", "left to the owner"])
@pytest.mark.parametrize("waits_for", WAITS)
@pytest.mark.parametrize("at", [0, 1])
async def test_the_same_decision_with_the_same_key_is_acknowledged_also_when_it_overtakes_itself(
    stored: Stored, tmp_path: Path, waits_for: WaitsFor, is_held: bool, at: int
) -> None:
    await stored.leases.renew(worker_of(tmp_path), 60)
    goal_id = await waiting_goal(stored.store, waits_for, tmp_path, is_held=is_held)
    goals, verdict = goals_of(stored, tmp_path), RIVALS[waits_for][at]
    late = overtaken(stored, tmp_path, lambda: goals.decide(goal_id, verdict, key="k"))
    for again in (late, goals):
        assert not (await again.decide(goal_id, verdict, call_id="pay.1", key="k")).is_news
    assert await decided(goals, goal_id) == [verdict]


async def test_a_key_that_denied_a_call_denies_no_other_and_decides_nothing_else(
    stored: Stored, tmp_path: Path
) -> None:
    goal_id = await waiting_goal(stored.store, "approval", tmp_path)
    goals = goals_of(stored, tmp_path)
    await goals.decide(goal_id, "deny", value="too much", key="k")
    assert not (await goals.decide(goal_id, "deny", value="too much", key="k")).is_news
    for other in ({"decision": "approve"}, {"decision": "deny", "value": "no"}, {"decision": "deny", "call_id": "x"}):
        with pytest.raises(Conflict, match="another decision: deny"):
            await goals.decide(goal_id, **other, key="k")


@pytest.mark.parametrize("verb", ["decide", "signal"])
async def test_nothing_is_acknowledged_behind_a_cancellation(stored: Stored, tmp_path: Path, verb: str) -> None:
    """The owner takes the cancellation first, and the goal ends: what was acknowledged behind it would be lost."""
    await stored.leases.renew(worker_of(tmp_path), 60)
    goal_id = await waiting_goal(stored.store, "unknown", tmp_path, is_held=True)
    goals = goals_of(stored, tmp_path)
    await goals.cancel(goal_id, wait_s=0)
    with pytest.raises(Conflict, match="is being cancelled"):
        await (goals.decide(goal_id, "retry") if verb == "decide" else goals.signal(goal_id, "paid"))
    assert [row.kind for row in await goals.pending(goal_id)] == ["cancel"]


async def test_a_late_decision_gets_the_recorded_one_also_when_the_goal_has_ended_since(
    stored: Stored, tmp_path: Path
) -> None:
    goal_id = await waiting_goal(stored.store, "unknown", tmp_path)
    goals = goals_of(stored, tmp_path)
    await goals.decide(goal_id, "abort")
    assert (await goals.resume_run(goal_id)).state.status == "failed"
    with pytest.raises(Conflict, match=r"^pay\.1 was already decided: abort\.$"):
        await goals.decide(goal_id, "retry", call_id="pay.1")
    with pytest.raises(Conflict, match=r"pay\.1 was already decided: abort\.$"):
        await goals.decide(goal_id, "retry")
