"""`key:KEY` instead of an id: every command for one goal finds the goal that the key has started."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.cli.terminal import Terminal
from tests.interfaces.cli.test_flows import forget

FLOW = """
from perdure import flow


@flow
async def asks(goal):
    return await goal.ask("Publish?", ["yes", "no"])


@flow
async def fails(goal):
    raise ValueError("no")
"""


@pytest.fixture(autouse=True)
def own_module(ready: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (ready / "keyed.py").write_text(FLOW)
    forget("keyed")
    yield
    forget("keyed")


def test_a_goal_is_shown_answered_resumed_and_deleted_by_its_key(perdure: Terminal) -> None:
    assert perdure("run", "--no-input", "--flow", "keyed:asks", "--key", "order 7") == 5
    goal = perdure.newest()
    assert perdure.json("goal", "show", "key:order 7")["id"] == goal
    assert perdure("goal", "answer", "key:order 7", "yes") == 0
    assert perdure("goal", "resume", "key:order 7") == 0
    assert perdure.out == "yes\n"
    assert perdure("goal", "watch", "key:order 7") == 0
    assert perdure("goal", "show", "key:order 7", "--output", "value") == 0
    assert perdure("run", "--resume", "key:order 7") == 0
    assert perdure("goal", "delete", "key:order 7", "--yes") == 0
    assert perdure("goal", "show", "key:order 7") == 3
    assert "No goal was started with the key 'order 7'." in perdure.err


def test_a_goal_is_cancelled_and_retried_by_its_key(perdure: Terminal) -> None:
    assert perdure("run", "--no-input", "--flow", "keyed:asks", "--key", "a") == 5
    assert perdure("goal", "cancel", "key:a") == 0
    assert perdure.goals("--key", "a")[0]["status"] == "cancelled"
    assert perdure("run", "--flow", "keyed:fails", "--key", "b") == 1
    assert perdure("goal", "retry", "key:b", "--key", "try-2") == 1
    assert "retried by person" in perdure.err
    assert perdure("goal", "signal", "key:a", "go") == 4
    assert perdure("goal", "resume", "key:") == 2


def test_help_names_keys_and_resumes(perdure: Terminal) -> None:
    assert perdure("goal", "resume", "--help") == 0
    said = " ".join(perdure.out.split())
    assert "Resume a goal" in said
    assert "key:KEY" in said
