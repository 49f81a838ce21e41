"""Goals that clean up, killed by SIGKILL beside the append of the cancel, in the cleanup and before the end."""

from pathlib import Path

import pytest

from perdure import Goal, GoalCancelled, GoalWaiting, flow
from tests import children
from tests.crash.flows import cleaning
from tests.crash.goals import counted, open_goals


async def cancel(home: Path, url: str, goal_id: str) -> None:
    async with open_goals(home, url) as goals:
        await goals.cancel(goal_id, key="once")


@flow
async def parent_of_cleaning(goal: Goal, folder: str) -> str:
    return await goal.child(cleaning, folder)


@pytest.mark.parametrize("point", ["kernel.effect.before", "kernel.effect.after"])
async def test_a_killed_cleanup_of_a_child_is_finished_when_its_parent_is_resumed(
    database_url: str, tmp_path: Path, point: str
) -> None:
    home = tmp_path / "home"
    async with open_goals(home, database_url) as goals:
        with pytest.raises(GoalWaiting) as waiting:
            await goals.run(parent_of_cleaning, str(tmp_path))
        parent = waiting.value.id
    children.run_until(point, cancel, home, database_url, parent, hits=1)
    async with open_goals(home, database_url) as goals:
        [child] = await goals.children_of(parent)
        assert child.status == "interrupted"
        with pytest.raises(GoalCancelled):
            await goals.resume(parent)
        assert (await goals.get(child.id)).status == "cancelled"
        types = [event.type for event in await goals.history(child.id)]
    assert (types.count("cancel"), types.count("termination")) == (1, 1)
    assert 1 <= counted(tmp_path, "undo") <= 2


@pytest.mark.parametrize(
    ("point", "hits"),
    [
        ("kernel.append.before", 1),
        ("kernel.append.after", 1),
        ("kernel.effect.before", 1),
        ("kernel.effect.after", 1),
        ("kernel.append.before", 4),
        ("kernel.append.after", 4),
    ],
)
async def test_a_killed_cleanup_is_finished_by_the_next_worker(
    database_url: str, tmp_path: Path, point: str, hits: int
) -> None:
    home = tmp_path / "home"
    async with open_goals(home, database_url) as goals:
        with pytest.raises(GoalWaiting) as waiting:
            await goals.run(cleaning, str(tmp_path))
        goal_id = waiting.value.id
    children.run_until(point, cancel, home, database_url, goal_id, hits=hits)
    async with open_goals(home, database_url) as goals:
        if not (await goals.get(goal_id)).is_final:
            await goals.cancel(goal_id, key="once")
        with pytest.raises(GoalCancelled):
            await goals.resume(goal_id)
        types = [event.type for event in await goals.history(goal_id)]
    assert (types.count("cancel"), types.count("termination")) == (1, 1)
    assert counted(tmp_path, "book") == 1
    assert 1 <= counted(tmp_path, "undo") <= 2
