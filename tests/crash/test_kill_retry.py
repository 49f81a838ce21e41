"""A retry killed by SIGKILL beside the append that reopens the goal: it is failed or reopened, and ends well."""

from pathlib import Path

import pytest

from perdure.kernel.history.replay import replay
from tests import children
from tests.crash.goals import counted, open_goals, run_plan

PLAN = """
goal: publish
steps:
  - {id: fetch, shell: true, exec: "echo . >> fetch"}
  - {id: send, shell: true, exec: "test -e paper && echo . >> send", needs: [fetch]}
"""


async def retry(home: Path, url: str, goal_id: str) -> None:
    async with open_goals(home, url) as goals:
        await goals.reopen(goal_id, key="again")


@pytest.mark.parametrize(
    ("point", "status"),
    [
        ("store.claim.after", "failed"),
        ("kernel.append.before", "failed"),
        ("kernel.append.after", "interrupted"),
    ],
)
async def test_a_killed_retry_leaves_the_goal_failed_or_reopened_and_the_same_key_continues(
    database_url: str, tmp_path: Path, point: str, status: str
) -> None:
    home = tmp_path / "home"
    async with open_goals(home, database_url) as goals:
        goal_id = (await run_plan(goals, PLAN, tmp_path)).state.goal_id
        assert (await goals.get(goal_id)).status == "failed"
    (tmp_path / "paper").touch()
    children.run_until(point, retry, home, database_url, goal_id)
    async with open_goals(home, database_url) as goals:
        assert (await goals.get(goal_id)).status == status
        assert [goal.id for goal in await goals.list()] == [goal_id]
    children.run(retry, home, database_url, goal_id)
    async with open_goals(home, database_url) as goals:
        assert (await goals.get(goal_id)).status == "done"
        events = await goals.history(goal_id)
        assert [event.type for event in events].count("reopened") == 1
        replay(events, await goals._store.find(goal_id))
    assert (counted(tmp_path, "fetch"), counted(tmp_path, "send")) == (1, 1)
