"""Ctrl-C, once and twice, in every phase of a run: 130, nothing left running, and a goal that goes on."""

from pathlib import Path

import pytest

from tests import children
from tests.crash import program
from tests.crash.goals import carry_on, counted, is_running, open_goals

pytest.importorskip("perdure.interfaces.cli.goals.run_ui.interrupts")

ENDING = "Stopping after the running step"
PLANS = {
    "a step": '{id: work, shell: true, exec: "echo $$ >> pids; echo . >> work; test -e go || sleep 600"}',
    "a timer": "{id: work, wait: 50s}",
    "a question beside a step": (
        '{id: sure, ask: {question: "Sure?"}}\n'
        '  - {id: work, shell: true, exec: "echo $$ >> pids; echo . >> work; test -e go || sleep 600"}'
    ),
}

CHECKED = """
goal: checked
steps:
  - {id: work, shell: true, exec: "echo . >> work", check: "exec sh check.sh"}
"""
CHECK = "echo $$ >> pids; test -e go && exit 1; kill -INT $PPID; until test -e go; do sleep 0.02; done; exit 1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


def write_plan(folder: Path, steps: str) -> None:
    (folder / "plan.yaml").write_text(f"goal: interrupted\nsteps:\n  - {steps}\n")


async def the_goal(home: Path) -> tuple[str, str, list[str]]:
    """Return the id and the status of the one goal, and the calls that nobody knows of."""
    async with open_goals(home, str(home / "perdure.db")) as goals:
        (goal,) = await goals.list()
        state = await goals.state(goal.summary.goal_id)
        unknown = [call_id for call_id, call in state.open_calls.items() if call.unknown is not None]
        return goal.summary.goal_id, goal.status, unknown


def left_running(folder: Path) -> list[int]:
    pids = folder / "pids"
    return [pid for pid in map(int, pids.read_text().split()) if is_running(pid)] if pids.exists() else []


async def test_before_there_is_a_goal_it_leaves_none(tmp_path: Path, folder: Path) -> None:
    home = tmp_path / "home"
    write_plan(folder, PLANS["a step"])
    (folder / "go").touch()
    started = program.start(home, folder, ["run", "--plan", "plan.yaml"], interrupted_at="store.create.before")
    assert started.end()[0] == 130
    async with open_goals(home, str(home / "perdure.db")) as goals:
        assert await goals.list() == []
    assert program.run(home, folder, "run", "--plan", "plan.yaml")[0] == 0
    assert counted(folder, "work") == 1


@pytest.mark.parametrize("phase", PLANS)
async def test_twice_while_something_runs_or_waits_ends_at_once_and_can_continue(
    tmp_path: Path, folder: Path, phase: str
) -> None:
    home = tmp_path / "home"
    write_plan(folder, PLANS[phase])
    started = program.start(home, folder, ["run", "--plan", "plan.yaml"], interrupted_at="kernel.append.after")
    if phase != "a timer":
        started.wait_for(ENDING)
        started.interrupt()
    code, said = started.end()
    assert code == 130
    assert "Traceback" not in said
    assert left_running(folder) == []
    goal_id, status, _ = await the_goal(home)
    assert f"goal resume {goal_id}" in said
    assert status in ("interrupted", "waiting")
    (folder / "go").touch()
    if phase != "a timer":
        assert program.run(home, folder, "run", "--resume", goal_id)[0] == 5
        assert counted(folder, "work") <= 1


async def test_once_while_a_step_runs_lets_it_finish(tmp_path: Path, folder: Path) -> None:
    home = tmp_path / "home"
    write_plan(folder, PLANS["a step"].replace("sleep 600", "until test -e go; do sleep 0.02; done"))
    started = program.start(home, folder, ["run", "--plan", "plan.yaml"], interrupted_at="kernel.effect.before")
    started.wait_for(ENDING)
    (folder / "go").touch()
    assert started.end()[0] in (0, 130)
    goal_id, _, unknown = await the_goal(home)
    assert unknown == []
    assert program.run(home, folder, "run", "--resume", goal_id)[0] == 0
    assert counted(folder, "work") == 1


@pytest.mark.parametrize("is_twice", [False, True], ids=["once", "twice"])
async def test_in_the_recovery_it_leaves_the_goal_to_be_recovered_again(tmp_path: Path, is_twice: bool) -> None:
    """The step's own check is at work when Ctrl-C is pressed: the check presses it."""
    home, url = tmp_path, str(tmp_path / "perdure.db")
    _, theirs = children.context().Pipe(duplex=False)
    (home / "check.sh").write_text(CHECK)
    children.run_until("kernel.effect.before", carry_on, home, url, CHECKED, theirs)
    goal_id, _, _ = await the_goal(home)
    started = program.start(home, home, ["run", "--resume", goal_id])
    started.wait_for(ENDING)
    if is_twice:
        started.interrupt()
    else:
        (home / "go").touch()
    assert started.end()[0] == 130
    assert left_running(home) == []
    assert counted(home, "work") == 0
    (home / "go").touch()
    assert program.run(home, home, "run", "--resume", goal_id)[0] == 0
    assert counted(home, "work") == 1
