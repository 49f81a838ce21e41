"""`perdure goal cancel` of goals whose flow cleans up."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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
