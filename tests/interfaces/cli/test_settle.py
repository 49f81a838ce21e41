"""`perdure goal answer --resume` and `signal`: what was recorded is said, whatever comes after it."""

import sys
from pathlib import Path

import pytest

from perdure.minds.flow import registry
from tests.interfaces.cli.terminal import Terminal

FAILS = """
goal: publish
steps:
  - {id: sure, ask: {question: "Publish?"}}
  - {id: send, exec: "false", needs: [sure]}
"""
FLOW = """
from perdure import flow

@flow
async def waits(goal):
    return await goal.signal("paid")
"""


@pytest.fixture
def asking(perdure: Terminal) -> str:
    Path("plan.yaml").write_text(FAILS)
    assert perdure("run", "--plan", "plan.yaml") == 5
    return perdure.newest()


def test_the_recorded_answer_is_said_before_the_run_and_the_exit_code_is_that_of_the_run(
    perdure: Terminal, asking: str
) -> None:
    assert perdure("goal", "answer", asking, "yes", "--resume") == 1
    assert perdure.err.startswith(f"Recorded: answer 'yes'.\ngoal {asking}: resumed")


def test_an_answer_that_does_not_fit_is_not_said_to_be_recorded(perdure: Terminal, asking: str) -> None:
    assert perdure("goal", "answer", asking, "other.1", "yes", "--resume") == 4
    assert "Recorded" not in perdure.err


def test_what_cannot_be_resumed_here_is_not_recorded_and_that_is_said(
    perdure: Terminal, ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (ready / "flow_that_goes.py").write_text(FLOW)
    assert perdure("run", "--flow", "flow_that_goes:waits") == 5
    goal = perdure.newest()
    (ready / "flow_that_goes.py").write_text("from perdure import flow\n")
    del sys.modules["flow_that_goes"]
    monkeypatch.delitem(registry._FLOWS, "flow_that_goes:waits")
    assert perdure("goal", "signal", goal, "paid", "--resume") == 3
    assert perdure.err.startswith("Nothing was recorded.\n")
    assert perdure.goals()[0]["last_seq"] == 2


def test_a_signal_that_nothing_waits_for_is_recorded_with_a_warning(perdure: Terminal, asking: str) -> None:
    assert perdure("goal", "signal", asking, "payed") == 0
    note = "Nothing waits for signal 'payed' now; it is kept until a step does. The goal waits for an answer to sure."
    assert perdure.err == f"Warning: {note}\n"
    told = perdure.json("goal", "signal", asking, "payed", "--key", "k")
    assert (told["warning"], told["detail"]) == (note, note)
    assert [event["type"] for event in perdure_events(perdure, asking)].count("signal") == 2


def test_a_signal_that_is_waited_for_has_no_warning(perdure: Terminal, ready: Path) -> None:
    (ready / "flow_of_signals.py").write_text(FLOW)
    perdure("run", "--flow", "flow_of_signals:waits")
    told = perdure.json("goal", "signal", perdure.newest(), "paid")
    assert "warning" not in told


def perdure_events(perdure: Terminal, goal: str) -> list[dict[str, object]]:
    perdure("goal", "export", goal)
    return perdure.events
