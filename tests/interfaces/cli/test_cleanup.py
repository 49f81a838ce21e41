"""`perdure goal cancel` of goals whose flow cleans up."""

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import GoalWaiting, Perdure
from perdure.app.goals.updates import posts
from perdure.minds.flow import registry
from tests.interfaces.cli.terminal import Terminal

FLOWS = """
from perdure import flow


def act(what):
    with open("effects.txt", "a") as effects:
        effects.write(f"{what}\\n")


@flow(cleanup=True)
async def booking(goal):
    await goal.options(effect="idempotent").step(act, "book")
    try:
        return await goal.ask("Keep it?")
    finally:
        await goal.options(effect="idempotent").step(act, "undo")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a module of flows, which is the current folder."""
    path = tmp_path / "bookings.py"
    path.write_text(FLOWS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("bookings", None)


def parked(perdure: Terminal) -> str:
    assert perdure("run", "--flow", "bookings:booking") == 5
    (goal,) = perdure.goals()
    return str(goal["id"])


def test_a_cancelled_goal_cleans_up_here_and_in_its_folder(
    perdure: Terminal, module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal = parked(perdure)
    (module / "elsewhere").mkdir()
    monkeypatch.chdir(module / "elsewhere")
    assert perdure("goal", "cancel", goal, "--reason", "withdrawn") == 0
    assert perdure.out == f"{goal} is cancelled.\n"
    assert (module / "effects.txt").read_text() == "book\nundo\n"
    shown = perdure.json("goal", "show", goal)
    assert shown["detail"] == "withdrawn"


def test_now_ends_a_goal_without_cleanup(perdure: Terminal, module: Path) -> None:
    goal = parked(perdure)
    assert perdure("goal", "cancel", goal, "--now") == 0
    assert (module / "effects.txt").read_text() == "book\n"


def test_several_goals_clean_up(perdure: Terminal, module: Path) -> None:
    parked(perdure)
    assert perdure("goal", "cancel", "--all", "--yes", "--reason", "withdrawn") == 0
    assert perdure.out == "1 goal cancelled.\n"
    assert (module / "effects.txt").read_text() == "book\nundo\n"


def parked_by_application(module: Path) -> str:
    """Park a goal of an application, which then ends; return its id."""

    async def park() -> str:
        async with Perdure.open(app="shop") as p:
            with pytest.raises(GoalWaiting) as waiting:
                await p.goals.run(importlib.import_module("bookings").booking)
            return waiting.value.id

    sys.path.insert(0, str(module))
    goal = asyncio.run(park())
    sys.path.remove(str(module))
    sys.modules.pop("bookings")
    registry._FLOWS.pop("bookings:booking", None)
    return goal


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the worker of an application that does not run."""
    monkeypatch.setattr(posts, "_CLAIM_WAIT_S", 0.0)


@pytest.mark.usefixtures("at_once")
def test_the_cleanup_of_an_application_that_does_not_run_is_run_here(perdure: Terminal, module: Path) -> None:
    goal = parked_by_application(module)
    assert perdure("goal", "cancel", goal, "--reason", "withdrawn") == 0
    assert perdure.out == f"{goal} is cancelled.\n"
    assert (module / "effects.txt").read_text() == "book\nundo\n"
    assert perdure.json("goal", "show", goal)["queue"] == "app.shop"


@pytest.mark.usefixtures("at_once")
def test_a_cancel_that_is_repeated_without_the_code_skips_nothing_and_says_what_runs_the_cleanup(
    perdure: Terminal, module: Path
) -> None:
    goal = parked_by_application(module)
    code = (module / "bookings.py").rename(module / "gone.py")
    for _ in range(2):
        assert perdure("goal", "cancel", goal) == 1
        assert "Start the application 'shop', or resume it where the code of its flow is available." in perdure.out
        assert f"perdure goal resume {goal}" in perdure.out
    assert perdure.json("goal", "show", goal)["status"] == "interrupted"
    code.rename(module / "bookings.py")
    assert perdure("goal", "resume", goal) == 130
    assert (module / "effects.txt").read_text() == "book\nundo\n"


@pytest.mark.usefixtures("at_once")
def test_a_goal_whose_cleanup_was_skipped_says_so(perdure: Terminal, module: Path) -> None:
    goal = parked_by_application(module)
    (module / "bookings.py").rename(module / "gone.py")
    assert perdure("goal", "cancel", goal, "--reason", "withdrawn") == 1
    assert perdure("goal", "cancel", goal, "--now") == 0
    assert perdure("goal", "show", goal) == 0
    assert "withdrawn (without the cleanup of its flow)" in perdure.out
