"""What people and programs see of a goal: every step, answers, outputs, when it goes on."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from perdure import Perdure
from perdure.app.home.server_mark import marked_as_server
from perdure.interfaces.cli.command_result import Table, print_table
from perdure.interfaces.cli.goals.display.timeline import STATE_COLUMN, timeline
from perdure.kernel.events import GoalBegun, Head, MindSpec, seal
from perdure.minds.plan.mind import PlanMind
from perdure.minds.plan.plan_file import parse_plan
from perdure.settings import load_settings
from perdure.text.moments import moment
from tests.interfaces.cli.terminal import Screen, Terminal
from tests.minds.history import START_US, History

BRANCHES = """
goal: publish
steps:
  - {id: fetch, exec: "echo fetched"}
  - {id: sure, ask: {question: "Publish?", options: ["yes", "no"]}, needs: [fetch]}
  - {id: send, exec: [touch, sent], needs: [sure], if: {step: sure, answer: "yes"}}
  - {id: last, exec: "true", needs: [send], if: {step: send, is: skipped}}
"""
UTC = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")


def begun(perdure: Terminal, plan: str, *arguments: str) -> int:
    Path("plan.yaml").write_text(plan)
    return perdure("run", "--plan", "plan.yaml", *arguments)


def test_every_step_of_a_plan_is_shown(perdure: Terminal) -> None:
    assert begun(perdure, BRANCHES) == 5
    assert perdure("goal", "show", "20") == 0
    assert re.search(r"^ +send +not begun$", perdure.out, re.MULTILINE)
    assert re.search(r"^1?2-3 +fetch +exec, once +done", perdure.out, re.MULTILINE)
    assert "cost" not in perdure.out
    assert perdure("goal", "answer", perdure.newest(), "no", "--resume") == 0
    assert not Path("sent").exists()
    perdure("goal", "show", "20")
    assert re.search(r"^ +send +skipped$", perdure.out, re.MULTILINE)
    assert " answered: no " in perdure.out
    shown = perdure.json("goal", "show", "20")
    assert shown["not_begun"] == [{"step": "send", "state": "skipped"}]
    assert [call["answer"] for call in shown["timeline"]] == [None, "no", None]


def test_a_program_learns_what_a_goal_waits_for(perdure: Terminal) -> None:
    begun(perdure, BRANCHES, "--json")
    goal = json.loads(perdure.out)
    assert goal["questions"] == [
        {"call_id": "sure.1", "step": "sure", "question": "Publish?", "options": ["yes", "no"], "until": None}
    ]
    assert (goal["error"], goal["unknown"], goal["limits"]["reached"], goal["due_at"]) == (None, [], None, None)
    assert perdure.json("goal", "show", goal["id"])["questions"] == goal["questions"]


def test_a_program_learns_why_a_goal_failed_and_which_limit_it_reached(perdure: Terminal) -> None:
    failed = perdure.json("run", "--", "false")
    assert "exit code 1" in failed["detail"]
    assert (failed["error"]["code"], failed["error"]["traceback"]) == ("exit", None)
    begun(perdure, BRANCHES, "--json", "--max-iterations", "1")
    limits = json.loads(perdure.out)["limits"]
    assert (limits["reached"], limits["iterations"]) == ("iterations", {"limit": 1, "used": 1})


def test_the_output_of_a_step_is_printed_as_the_history_has_it(perdure: Terminal) -> None:
    begun(perdure, BRANCHES)
    for name in ("fetch", "fetch.1"):
        assert perdure("goal", "show", "20", "--output", name) == 0
        assert (perdure.out, perdure.err) == ("fetched\n", "")
    assert perdure.json("goal", "show", "20", "--output", "fetch")["output"]["exit_code"] == 0
    assert perdure("goal", "show", "20", "--output", "sure") == 3
    assert "fetch" in perdure.err
    perdure("goal", "answer", perdure.newest(), "yes")
    perdure("goal", "show", "20", "--output", "sure")
    assert perdure.out == "yes\n"


def test_the_output_of_a_step_is_found_by_its_short_name(perdure: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    body = "    for n in range(2):\n        await goal.step(str, n)\n    return await goal.step(len, 'abc')\n"
    Path("counting.py").write_text(f"from perdure import flow\n\n\n@flow\nasync def count(goal):\n{body}")
    assert perdure("run", "--flow", "counting:count") == 0
    for name, output in {"len": "3\n", "/len#0": "3\n", "str#1": "1\n", "str#0.1": "0\n", "value": "3\n"}.items():
        assert perdure("goal", "show", "20", "--output", name) == 0, name
        assert perdure.out == output
    assert perdure("goal", "show", "20", "--output", "str") == 2
    assert "/str#0, /str#1" in perdure.err


def test_what_a_step_used_and_recorded_is_shown(perdure: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("using.py").write_text(
        "from perdure import current_step, flow\n"
        "def use():\n"
        "    current_step().usage(tokens=7, cost_usd=0.25)\n"
        "    current_step().record(model='m-1')\n"
        "@flow\n"
        "async def using(goal):\n"
        "    await goal.step(use)\n"
    )
    monkeypatch.syspath_prepend(str(Path.cwd()))
    assert perdure("run", "--flow", "using:using") == 0
    perdure("goal", "show", perdure.newest())
    assert "$0.2500" in perdure.out
    call = perdure.json("goal", "show", perdure.newest())["timeline"][0]
    assert (call["usage"], call["meta"]) == ({"tokens": 7, "cost_usd": 0.25}, {"model": "m-1"})


def test_a_goal_that_sleeps_says_until_when(perdure: Terminal) -> None:
    assert begun(perdure, "goal: nap\nsteps: [{id: nap, wait: 2h}]") == 5
    goal = perdure.newest()
    begun(perdure, "goal: nap\nsteps: [{id: nap, wait: 2h}]")
    assert len(UTC.findall(perdure.err)) == 3, "where it begins, in the timeline and in the hint"
    assert perdure("run", "--resume", goal) == 5
    hint = rf"It sleeps until {UTC.pattern}\. Resume it then\.\n  perdure goal resume {goal}\n"
    assert re.search(hint, perdure.err)
    assert "step nap: waits until" in perdure.err


def test_a_goal_that_sleeps_says_that_a_running_server_resumes_it(perdure: Terminal) -> None:
    with marked_as_server(load_settings().home):
        begun(perdure, "goal: nap\nsteps: [{id: nap, wait: 2h}]")
        assert "The server of this home resumes it when it is due." in perdure.err
    perdure("goal", "show", perdure.newest())
    assert "No server runs on this home. Start one: `perdure serve`" in perdure.out


def test_a_step_that_failed_says_when_it_is_tried_again() -> None:
    text = "goal: g\nsteps: [{id: a, exec: x, retry: {attempts: 3, initial: 5s, factor: 4}}]"
    history = History(PlanMind(parse_plan(text, "p")))
    history.events = [
        seal(GoalBegun("g", MindSpec("plan", plan=text)), Head("g"), event_id="e", iteration=0, timestamp_us=START_US)
    ]
    history.state = history.folded()

    def state() -> str:
        return timeline(history.state).rows[-1][STATE_COLUMN]

    asyncio.run(history.step())
    history.fail("a.1")
    assert state() == f"failed: exit 3, tries again at {moment(START_US + 5_000_000)}"
    history.now_us += 5_000_000
    asyncio.run(history.step())
    assert "tries" not in timeline(history.state).rows[0][STATE_COLUMN]
    history.fail("a.2")
    assert state() == f"failed: exit 3, tries again at {moment(START_US + 25_000_000)}"
    history.now_us += 20_000_000
    asyncio.run(history.step())
    history.fail("a.3")
    assert state() == "failed: exit 3"


def test_an_empty_list_says_so(perdure: Terminal) -> None:
    perdure("run", "--list")
    assert perdure.out == "No goals yet. Start one: perdure run -- echo hello\n"
    perdure("goal", "list", "--status", "waiting")
    assert perdure.out == "No goal matches --status waiting.\n"


@pytest.mark.parametrize("columns", [200, 80, 60, 40])
def test_what_must_be_whole_is_never_cut(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    goal = "20261115-133223-a-name-that-goes-on-and-on-and-o-hyg4"[:columns]
    text = "a text that goes on and on and on"
    screen = Screen()
    print_table(Table(["goal", "status", "text"], [[goal, "waiting", text]], whole=["goal"]), screen)
    assert goal in screen.getvalue()
    assert set(text.split()) <= set(re.split(r"[\s,:]+", screen.getvalue()))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= columns


def test_a_word_of_the_shell_is_not_a_program(
    perdure: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert perdure("run", "--", "cd", "/") == 1
    assert "use --shell" in perdure.err
    assert perdure("run", "--", "cdx", "/") == 1
    assert "use --shell" not in perdure.err


def test_the_key_that_started_a_goal_is_shown(perdure: Terminal, ready: Path) -> None:
    async def start() -> str:
        async with Perdure.open(ready.parent / "home") as p:
            return (await p.goals.options(key="nightly").run(["true"])).id

    goal_id = asyncio.run(start())
    perdure("goal", "show", goal_id)
    assert re.search(r"^key +nightly$", perdure.out, re.MULTILINE)
    assert perdure.json("goal", "show", goal_id)["key"] == "nightly"
