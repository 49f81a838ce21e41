"""Goals that are woken by `goal resume --due`: all of them, once, and also after whoever woke them has died."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.crash import program
from tests.crash.goals import counted, open_goals

MANY = 6
DUE = ("goal", "resume", "--due")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("park_after_s = 0")
    return home


async def parked(home: Path, folder: Path, work: str) -> str:
    """Start a plan that sleeps for a moment before its work, and return its goal when it is due."""
    step = f'{{id: work, shell: true, effect: idempotent, needs: [nap], exec: "{work}"}}'
    (folder / "plan.yaml").write_text(f"goal: nap\nsteps:\n  - {{id: nap, wait: 1s}}\n  - {step}\n")
    assert program.run(home, folder, "run", "--plan", "plan.yaml")[0] == 5
    async with open_goals(home, str(home / "perdure.db")) as goals:
        while not (due := await goals.due()):  # noqa: ASYNC110 (the clock of the system alone ends the nap)
            await asyncio.sleep(0.02)
        return due[0].summary.goal_id


async def test_a_goal_whose_waker_was_killed_is_woken_again(tmp_path: Path, home: Path) -> None:
    await parked(home, tmp_path, "test -e go || kill -9 $PPID $$; echo . >> work")
    assert program.run(home, tmp_path, *DUE)[0] == -signal.SIGKILL
    assert program.run(home, tmp_path, *DUE)[0] == -signal.SIGKILL
    (tmp_path / "go").touch()
    assert program.run(home, tmp_path, *DUE)[0] == 0
    assert counted(tmp_path, "work") == 1
    async with open_goals(home, str(home / "perdure.db")) as goals:
        assert [goal.status for goal in await goals.list()] == ["done"]
        assert await goals.due() == []


async def test_a_goal_that_a_person_resumed_is_that_persons(tmp_path: Path, home: Path) -> None:
    goal_id = await parked(home, tmp_path, "kill -9 $PPID")
    assert program.run(home, tmp_path, "goal", "resume", goal_id)[0] == -signal.SIGKILL
    async with open_goals(home, str(home / "perdure.db")) as goals:
        assert await goals.due() == []


async def test_a_post_to_a_goal_that_was_woken_leaves_it_due(tmp_path: Path, home: Path) -> None:
    goal_id = await parked(home, tmp_path, "kill -9 $PPID")
    assert program.run(home, tmp_path, *DUE)[0] == -signal.SIGKILL
    assert program.run(home, tmp_path, "goal", "signal", goal_id, "hello")[0] == 0
    async with open_goals(home, str(home / "perdure.db")) as goals:
        assert [goal.summary.goal_id for goal in await goals.due()] == [goal_id]


async def test_of_many_who_wake_goals_at_once_none_fails(tmp_path: Path, home: Path) -> None:
    await parked(home, tmp_path, "echo . >> work")
    started = [program.start(home, tmp_path, DUE) for _ in range(MANY)]
    assert [each.end() for each in started] == [(0, "")] * MANY
    assert counted(tmp_path, "work") == 1


async def test_a_goal_that_killed_three_wakers_is_put_on_hold_until_a_person_resumes_it(
    tmp_path: Path, home: Path
) -> None:
    goal_id = await parked(home, tmp_path, "test -e go || kill -9 $PPID $$; echo . >> work")
    for _ in range(3):
        assert program.run(home, tmp_path, *DUE)[0] == -signal.SIGKILL
    assert program.run(home, tmp_path, *DUE)[0] == 5
    assert program.run(home, tmp_path, *DUE)[0] == 0  # it is not due any more
    assert program.run(home, tmp_path, "goal", "resume", goal_id)[0] == -signal.SIGKILL
    (tmp_path / "go").touch()
    assert program.run(home, tmp_path, "goal", "resume", goal_id)[0] == 0
    assert counted(tmp_path, "work") == 1


async def test_a_goal_that_a_person_resumes_is_never_put_on_hold(tmp_path: Path, home: Path) -> None:
    (tmp_path / "plan.yaml").write_text(
        "goal: kill\nsteps: [{id: work, shell: true, effect: idempotent, exec: 'test -e go || kill -9 $PPID $$'}]\n"
    )
    assert program.run(home, tmp_path, "run", "--plan", "plan.yaml")[0] == -signal.SIGKILL
    async with open_goals(home, str(home / "perdure.db")) as goals:
        (goal,) = await goals.list()
    for _ in range(4):
        assert program.run(home, tmp_path, "run", "--resume", goal.id)[0] == -signal.SIGKILL
    (tmp_path / "go").touch()
    assert program.run(home, tmp_path, "run", "--resume", goal.id)[0] == 0
