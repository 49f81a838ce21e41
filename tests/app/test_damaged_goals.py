"""A waiting goal with one changed event: it is listed as damaged, and nothing is stored for it. On both databases."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from perdure import Conflict, Damaged, Goal, GoalWaiting, Perdure, flow
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import of_plan_text
from perdure.app.wire.approvals import list_approvals
from perdure.app.wire.goal_view import GoalView
from tests.app.serving import at_work, until
from tests.app.test_verification import edit

ASKS = "goal: pay\nsteps: [{id: sure, ask: {question: 'Pay Bob?'}}]"
CHANGES = {
    "text": "payload = replace(payload, 'Pay Bob', 'Pay Rob')",
    "timestamp": "timestamp = timestamp + 1",
    "id": "id = substr(hash, 1, 16)",
    "iteration": "iteration = iteration + 1",
}
Post = Callable[[Goals, str], Awaitable[GoalView]]
POSTS: dict[str, Post] = {
    "decide": lambda goals, goal_id: goals.decide(goal_id, "answer", value="yes", key="k"),
    "signal": lambda goals, goal_id: goals.signal(goal_id, "hello", key="k"),
    "cancel": lambda goals, goal_id: goals.cancel(goal_id, key="k"),
}


@pytest.fixture
async def p(tmp_path: Path, database_url: str) -> AsyncIterator[Perdure]:
    async with Perdure.open(tmp_path / "home", database_url=database_url) as p:
        yield p


async def damaged(p: Perdure, change: str) -> str:
    """Make a goal that waits for an answer, and change the event of its question."""
    goal_id = (await p.goals.begin(of_plan_text(ASKS, "plan"))).state.goal_id
    await edit(p.database, f"UPDATE events SET {change} WHERE type = 'action'")
    return goal_id


@pytest.mark.parametrize("kind", CHANGES)
async def test_a_goal_with_a_changed_event_is_listed_as_damaged(p: Perdure, kind: str) -> None:
    goal_id = await damaged(p, CHANGES[kind])
    [found], _ = await list_approvals(p.goals)
    assert (found.place.goal_id, found.kind, found.decisions) == (goal_id, "damaged", ())
    assert f"perdure goal fork {goal_id} --at" in str(found.wire()["why"])


@pytest.mark.parametrize("post", POSTS.values(), ids=POSTS)
async def test_what_is_posted_to_a_damaged_goal_is_rejected_and_not_stored(p: Perdure, post: Post) -> None:
    goal_id = await damaged(p, CHANGES["text"])
    for _ in range(2):
        with pytest.raises(Damaged, match="Restore a backup"):
            await post(p.goals, goal_id)
    assert await p.goals.pending(goal_id) == []
    assert (await p.goals.get(goal_id)).status == "waiting"


async def test_a_damaged_goal_that_runs_can_be_cancelled(p: Perdure, tmp_path: Path) -> None:
    plan = f"goal: run\nsteps: [{{id: a, shell: true, exec: 'touch {tmp_path}/began; sleep 600'}}]"
    async with at_work(p) as serving:
        goal_id = (await serving.start(of_plan_text(plan, "plan"))).id
        await until((tmp_path / "began").exists)
        await edit(p.database, "UPDATE events SET timestamp = timestamp + 1 WHERE seq = 1")
        assert (await p.goals.cancel(goal_id)).status == "cancelled"


async def test_a_damaged_goal_is_deleted_by_force_alone(p: Perdure) -> None:
    goal_id = await damaged(p, CHANGES["text"])
    with pytest.raises(Conflict, match=f"cannot be cancelled.*perdure goal delete {goal_id} --force"):
        await p.goals.delete(goal_id)
    assert await p.goals.delete(goal_id, force=True) == goal_id
    assert await p.goals.list() == []
    assert await p.database.verify() == []


async def test_force_does_not_delete_what_can_be_resumed(p: Perdure) -> None:
    waiting = (await p.goals.begin(of_plan_text(ASKS, "plan"))).state.goal_id
    with pytest.raises(Conflict, match="has not finished; cancel it first"):
        await p.goals.delete(waiting, force=True)


async def test_force_does_not_delete_what_runs(p: Perdure, tmp_path: Path) -> None:
    plan = f"goal: run\nsteps: [{{id: a, shell: true, exec: 'touch {tmp_path}/began; sleep 600'}}]"
    async with at_work(p) as serving:
        running = (await serving.start(of_plan_text(plan, "plan"))).id
        await until((tmp_path / "began").exists)
        await edit(p.database, "UPDATE events SET timestamp = timestamp + 1 WHERE seq = 1")
        with pytest.raises(Conflict, match="has not finished; cancel it first"):
            await p.goals.delete(running, force=True)
        await p.goals.cancel(running)


@flow
async def asks(goal: Goal) -> str:
    return str(await goal.ask("Pay?"))


@flow
async def family(goal: Goal) -> str:
    return await goal.child(asks)


async def with_damaged_child(p: Perdure, *more: str) -> tuple[str, str]:
    with pytest.raises(GoalWaiting) as waits:
        await p.goals.run(family)
    [child] = await p.goals.children_of(waits.value.id)
    change = "UPDATE events SET payload = replace(payload, 'Pay?', 'Pray?') WHERE payload LIKE '%Pay?%'"
    await edit(p.database, change, *more)
    return waits.value.id, child.id


async def test_the_parent_of_a_damaged_child_is_cancelled_and_both_are_deleted(p: Perdure) -> None:
    parent, child = await with_damaged_child(p)
    with pytest.raises(Conflict, match="which has not finished"):
        await p.goals.delete(child, force=True)
    assert (await p.goals.cancel(parent)).status == "cancelled"
    with pytest.raises(Conflict, match="a child"):
        await p.goals.delete(parent)
    await p.goals.delete(parent, force=True)
    assert await p.goals.list() == []


async def test_a_damaged_parent_is_deleted_with_its_damaged_child(p: Perdure) -> None:
    parent, _ = await with_damaged_child(
        p, "UPDATE events SET timestamp = timestamp + 1 WHERE payload LIKE '%\"child\"%'"
    )
    await p.goals.delete(parent, force=True)
    assert await p.goals.list() == []


async def test_a_server_runs_other_goals_beside_a_damaged_one(p: Perdure) -> None:
    damaged_id = (await p.goals.enqueue(of_plan_text(ASKS, "plan"))).id
    await edit(p.database, "UPDATE events SET timestamp = timestamp + 1 WHERE seq = 1")
    async with at_work(p) as serving:
        other = (await serving.start(of_plan_text("goal: x\nsteps: [{id: a, exec: 'true'}]", "plan"))).id
        async with asyncio.timeout(30):
            while not (await p.goals.get(other)).is_final:
                await p.goals.pause()
        assert (await p.goals.get(other)).status == "done"
        assert {goal.id for goal in await p.goals.list()} == {damaged_id, other}
        async with asyncio.timeout(30):
            while (await p.goals.get(damaged_id)).is_running:  # until the worker that found the damage has released it
                await p.goals.pause()
        assert await p.goals.delete(damaged_id, force=True) == damaged_id
    assert [goal.id for goal in await p.goals.list()] == [other]
