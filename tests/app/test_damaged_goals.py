"""A waiting goal with one changed event: it is listed as damaged, and nothing is stored for it. On both databases."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from perdure import Damaged, Perdure
from perdure.app.approvals import list_approvals
from perdure.app.goals import Goals
from perdure.app.new_goal import of_plan_text
from perdure.app.views import GoalView
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
