"""A fork, and a goal that is parked and woken by `resume --due`, killed by SIGKILL: each is done by the next try."""

import signal
from pathlib import Path

import pytest

from perdure.kernel.events import Decision, Wait, decode
from perdure.kernel.history.replay import replay
from tests import children
from tests.crash import program
from tests.crash.goals import counted, open_goals, run_plan

PLAN = """
goal: publish
steps:
  - {id: fetch, shell: true, exec: "echo . >> fetch"}
  - {id: sure, ask: {question: "Publish?", options: ["yes", "no"]}, needs: [fetch]}
  - {id: send, shell: true, exec: "echo . >> send", needs: [sure]}
"""
FLOW = """
import pathlib
from perdure import flow

def note(name):
    with open(name, "a") as book:
        book.write(".\\n")

def is_noted(name):
    return pathlib.Path(name).exists()

@flow
async def sleeps(goal):
    await goal.options(check=is_noted).step(note, "before")
    await goal.sleep(0.01)
    await goal.options(check=is_noted).step(note, "after")
    return "slept"
"""


async def fork(home: Path, url: str, goal_id: str) -> None:
    async with open_goals(home, url) as goals:
        await goals.fork(goal_id, 4)


@pytest.mark.parametrize("point", ["kernel.append.before", "kernel.append.after"])
async def test_a_fork_that_was_killed_is_wholly_there_or_not_at_all_and_can_be_run_at_once(
    database_url: str, tmp_path: Path, point: str
) -> None:
    home = tmp_path / "home"
    async with open_goals(home, database_url) as goals:
        goal_id = (await run_plan(goals, PLAN, tmp_path)).state.goal_id
        before = await goals.history(goal_id)
    children.run_until(point, fork, home, database_url, goal_id)
    async with open_goals(home, database_url) as goals:
        assert await goals.history(goal_id) == before
        assert len(await goals.list()) == 1 + point.endswith("after")
    children.run(fork, home, database_url, goal_id)
    async with open_goals(home, database_url) as goals:
        forks = [view for view in await goals.list() if view.summary.forked_from is not None]
        assert len(forks) == 1 + point.endswith("after")
        for number, found in enumerate(forks, 1):
            assert (found.status, found.summary.last_seq) == ("interrupted", 5)
            await goals.resume_run(found.summary.goal_id)
            await goals.decide(found.summary.goal_id, "answer", value="yes")
            assert (await goals.resume_run(found.summary.goal_id)).state.status == "done"
            replay(await goals.history(found.summary.goal_id), await goals._store.find(found.summary.goal_id))
            assert (counted(tmp_path, "fetch"), counted(tmp_path, "send")) == (1, number)


@pytest.fixture
def sleeper(tmp_path: Path, database_url: str) -> tuple[Path, Path]:
    """A home in which every sleep is parked, and a folder with a flow that sleeps."""
    home, folder = tmp_path / "home", tmp_path / "work"
    for path in (home, folder):
        path.mkdir(mode=0o700)
    (home / "config.toml").write_text(f'database_url = "{database_url}"\npark_after_s = 0\n')
    (folder / "sleepy.py").write_text(FLOW)
    return home, folder


START = ["run", "--flow", "sleepy:sleeps", "--key", "k"]
WAKE = ["goal", "resume", "--due"]


async def stands(home: Path, url: str) -> tuple[str, str | None]:
    """Return how the one goal stands, and what it waits for."""
    async with open_goals(home, url) as goals:
        (goal,) = await goals.list()
    return goal.status, goal.summary.waiting_for


def killed(home: Path, folder: Path, arguments: list[str], point: str, hit: int) -> None:
    """Run the program until it is killed; before the goal is due there is nothing that it could be killed at."""
    code = 0
    while code == 0:
        code = program.start(home, folder, arguments, killed_at=(point, hit)).end()[0] or 0
    assert code == -signal.SIGKILL


async def require_one_sleep(home: Path, url: str, folder: Path) -> None:
    """Check that all of it has happened once: both steps, the sleep, its end."""
    async with open_goals(home, url) as goals:
        (goal,) = await goals.list()
        events = await goals.history(goal.summary.goal_id)
        replay(events, goal.summary)
    bodies = [decode(event) for event in events]
    assert goal.status == "done"
    assert sum(isinstance(body, Wait) for body in bodies) == 1
    assert sum(isinstance(body, Decision) and body.decision == "elapsed" for body in bodies) == 1
    assert (counted(folder, "before"), counted(folder, "after")) == (1, 1)


@pytest.mark.parametrize(
    ("point", "hit", "left"),
    [
        ("kernel.append.before", 2, ("interrupted", None)),
        ("kernel.append.after", 2, ("waiting", "timer")),
    ],
)
async def test_a_goal_that_was_killed_while_it_was_parked_sleeps_once(
    sleeper: tuple[Path, Path], database_url: str, point: str, hit: int, left: tuple[str, str | None]
) -> None:
    home, folder = sleeper
    killed(home, folder, START, point, hit)
    assert await stands(home, database_url) == left
    assert program.run(home, folder, *START)[0] in (0, 5)
    while (await stands(home, database_url))[0] == "waiting":
        assert program.run(home, folder, *WAKE)[0] == 0
    await require_one_sleep(home, database_url, folder)


@pytest.mark.parametrize(
    ("point", "hit", "left"),
    [
        ("store.claim.after", 1, ("waiting", "timer")),
        ("kernel.append.before", 1, ("waiting", "timer")),
        ("kernel.append.after", 1, ("interrupted", None)),
        ("kernel.effect.after", 1, ("interrupted", None)),
        ("kernel.append.after", 2, ("done", None)),
    ],
)
async def test_a_goal_that_was_killed_while_it_was_woken_continues_and_does_all_once(
    sleeper: tuple[Path, Path], database_url: str, point: str, hit: int, left: tuple[str, str | None]
) -> None:
    home, folder = sleeper
    assert program.run(home, folder, *START)[0] == 5
    killed(home, folder, WAKE, point, hit)
    assert await stands(home, database_url) == left
    again = WAKE if left[0] == "waiting" else START
    assert program.run(home, folder, *again)[0] == 0
    await require_one_sleep(home, database_url, folder)
    assert program.run(home, folder, *WAKE) == (0, "")
