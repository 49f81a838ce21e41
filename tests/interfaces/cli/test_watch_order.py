"""`perdure goal watch` prints what happened in the order it happened."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from perdure import Perdure
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.errors import run
from perdure.interfaces.cli.goals.run_ui.run_ui import Showing
from perdure.interfaces.cli.goals.watch import _HomeGoalDisplay
from perdure.kernel.fold import fold
from tests.interfaces.cli.terminal import Screen, Terminal

PARALLEL = """
goal: parallel
steps:
  - {id: a, exec: "echo out-a"}
  - {id: b, shell: true, exec: "echo out-b; exit 3", retry: {attempts: 2}}
  - {id: c, exec: "echo out-c", needs: [a]}
"""


def test_events_of_parallel_steps_are_printed_once_and_in_order(perdure: Terminal) -> None:
    Path("plan.yaml").write_text(PARALLEL)
    assert perdure("run", "--plan", "plan.yaml") == 1
    goal = perdure.newest()
    perdure("goal", "watch", goal, "--jsonl")
    events = perdure.events
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    outputs = [event["payload"]["call_id"] for event in events if event["type"] == "tool_output"]
    perdure("goal", "watch", goal)
    assert perdure.out.split() == [f"out-{call_id[0]}" for call_id in outputs]
    ended = [line for line in perdure.err.splitlines() if ": done in" in line or ": failed after" in line]
    assert [line.split()[1][0] for line in ended] == [call_id[0] for call_id in outputs]


def test_where_a_goal_stands_is_not_said_before_the_events_that_led_there(
    perdure: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    perdure("run", "--", "false")
    goal = perdure.newest()
    options = Options(json=False, home=None, verbose=True, debug=False, no_input=True)

    async def look(seq: int) -> str:
        display = _HomeGoalDisplay(Showing(options), 0)
        async with Perdure.open() as p:
            await display._show_status_if_changed(p.goals, goal, fold((await p.goals.history(goal))[:seq]))
        await display.close()
        return capsys.readouterr().err

    assert asyncio.run(look(2)) == ""
    assert asyncio.run(look(4)).startswith(f"{goal}: failed\n")


def test_on_a_terminal_the_value_of_a_flow_stays_on_a_line_of_its_own(
    perdure: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("shipping.py").write_text(
        "from perdure import flow\n\n\n@flow\nasync def ship(goal):\n    return 'the parcel'\n"
    )
    assert perdure("run", "--flow", "shipping:ship") == 0
    goal = perdure.newest()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", screen := Screen())
    monkeypatch.setattr(sys, "stderr", screen)
    assert run(["goal", "watch", goal]) == 0
    value, after = screen.getvalue().split("the parcel\n")
    assert re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", value).endswith(("\n", "\r"))
    assert ("\x1b[2K" in value, "\x1b[2K" in after) == (True, False)
