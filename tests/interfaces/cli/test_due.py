"""`perdure goal resume --due`: what it goes on with, what it says, and how it ends beside others who do the same."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from perdure import Perdure, failpoints
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.minds.flow import registry
from tests.app.holds import WHY, left_by_dead_worker
from tests.crash import program
from tests.interfaces.cli.terminal import Terminal
from tests.interfaces.cli.test_damaged import edit

PLAN = """
goal: sleeps
steps:
  - {id: nap, wait: "2020-01-01T00:00:00Z"}
  - {id: after, shell: true, exec: "echo . >> after", needs: [nap]}
"""
FLOW = """
from perdure import flow

@flow
async def sleeps(goal):
    await goal.sleep(0)
    return "slept"
"""
WAKE = ("goal", "resume", "--due")


@pytest.fixture
def due(perdure: Terminal, ready: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A goal that is due, and was so from its first moment."""
    monkeypatch.setenv("PERDURE_PARK_AFTER_S", "0")
    (ready / "plan.yaml").write_text(PLAN)
    return asleep(perdure, "--plan", "plan.yaml")


def asleep(perdure: Terminal, *arguments: str) -> str:
    """Start a goal and be interrupted at once, when it sleeps."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    with failpoints.armed("kernel.append.after", interrupt):
        assert perdure("run", *arguments) == 130
    assert perdure.goals()[0]["waiting_for"] == "timer"
    return perdure.newest()


def test_without_a_goal_that_is_due_nothing_is_done(perdure: Terminal, ready: Path) -> None:
    (ready / "plan.yaml").write_text(PLAN.replace("2020", "2999"))
    assert perdure("run", "--plan", "plan.yaml") == 5
    before = perdure.goals()
    assert perdure(*WAKE) == 0
    assert perdure.out == "No goal is due.\n"
    assert perdure.json(*WAKE) == {"goals": []}
    assert perdure.goals() == before


def test_a_goal_that_fails_is_reported_and_ends_with_one_and_the_others_continue(
    perdure: Terminal, ready: Path, due: str
) -> None:
    (ready / "plan.yaml").write_text(PLAN.replace("echo . >> after", "exit 3"))
    fails = asleep(perdure, "--plan", "plan.yaml")
    assert perdure(*WAKE) == 1
    assert "Step after failed" in perdure.out
    assert {goal["id"]: goal["status"] for goal in perdure.goals()} == {due: "done", fails: "failed"}
    assert perdure(*WAKE) == 0


def test_a_damaged_goal_is_reported_and_keeps_no_other_from_going_on(
    perdure: Terminal, ready: Path, due: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (ready / "damaged_flow.py").write_text(FLOW)
    damaged = asleep(perdure, "--flow", "damaged_flow:sleeps")
    edit(f"UPDATE events SET payload = '{{' WHERE goal_no = (SELECT goal_no FROM goals WHERE id = '{damaged}')")
    assert perdure(*WAKE) == 1
    assert f"Event 1 of {damaged}" in " ".join(perdure.out.split())
    assert {goal["id"]: goal["status"] for goal in perdure.goals()} == {due: "done", damaged: "waiting"}


def test_a_flow_is_left_where_its_code_is_not(
    perdure: Terminal, ready: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (ready / "due_flow.py").write_text(FLOW)
    goal = asleep(perdure, "--flow", "due_flow:sleeps")
    monkeypatch.chdir(tmp_path)
    (found,) = perdure.json(*WAKE)["goals"]
    assert (found["id"], found["status"]) == (goal, "waiting")
    assert perdure(*WAKE) == 0
    assert "goal resume --due" in perdure.out
    monkeypatch.chdir(ready)
    (ready / "due_flow.py").write_text("1 / 0\n")
    sys.modules.pop("due_flow")
    registry._FLOWS.pop("due_flow:sleeps")
    assert perdure(*WAKE) == 1
    assert "ZeroDivisionError" in perdure.out
    (ready / "due_flow.py").write_text(FLOW)
    assert perdure(*WAKE) == 0
    assert perdure.goals()[0]["status"] == "done"


@pytest.mark.parametrize("others", [["20"], ["--jsonl"], ["--max-iterations", "3"]])
def test_what_is_due_is_resumed_unchanged(perdure: Terminal, others: list[str]) -> None:
    assert perdure(*WAKE, *others) == 2


@pytest.mark.parametrize("point", ["store.renew.after", "kernel.append.before"])
def test_who_finds_that_another_was_quicker_has_not_failed(
    perdure: Terminal, ready: Path, due: str, point: str
) -> None:
    codes: list[int | None] = []

    def let_another_wake_it() -> None:
        if not codes:
            codes.append(-1)
            codes[0] = program.run(Path(os.environ["PERDURE_HOME"]), ready, *WAKE)[0]

    with failpoints.armed(point, let_another_wake_it):
        assert perdure(*WAKE) == 0
    assert codes == [0]
    assert due in perdure.out
    assert (ready / "after").read_text() == ".\n"
    assert perdure.goals()[0]["status"] == "done"


def test_a_goal_that_is_overdue_says_so_and_how_it_is_resumed(perdure: Terminal, due: str) -> None:
    assert perdure("goal", "list") == 0
    assert re.search(rf"{due} +overdue ", perdure.out)
    assert perdure("goal", "show", due) == 0
    resume = f"It slept until 2020-01-01 00:00:00 UTC and is overdue. Resume it.\n  perdure goal resume {due}\n"
    assert resume in perdure.out
    assert perdure.json("goal", "show", due)["due_at"].startswith("2020-01-01T00:00:00")


async def held_goal(home: Path) -> str:
    async with Perdure.open(home) as p:
        goal_id = await left_by_dead_worker(p)
        await p.goals.resume_run(goal_id, RunOptions(is_automatic=True))
        return goal_id


def test_a_goal_on_hold_says_why_and_is_released_by_its_resume(perdure: Terminal, ready: Path) -> None:
    goal_id = asyncio.run(held_goal(ready.parent / "home"))
    assert perdure("goal", "list") == 0
    assert "waiting: hold" in perdure.out
    assert perdure("goal", "show", goal_id) == 0
    assert f"{goal_id}: waiting (hold)" in perdure.out
    assert WHY in perdure.out
    assert f"Resume it when the cause is fixed.\n  perdure goal resume {goal_id}\n" in perdure.out
    assert perdure.json("goal", "show", goal_id)["detail"] == WHY
    assert perdure("goal", "resume", goal_id) == 0
    assert "released by person" in perdure.err
