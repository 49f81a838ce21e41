"""What is printed to go on with: it can be pasted, and pasting it without thinking does no harm."""

import asyncio
import shlex
import sys
from pathlib import Path
from typing import get_args

import pytest

from perdure import Perdure
from perdure.app.home.system import SystemClock, SystemIds, WorkerIdentity
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.next_commands import NextCommand
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.goals.display.hints import failure_lines, interrupted_lines, next_lines, pasteable_command
from perdure.interfaces.cli.goals.display.timeline import STATE_COLUMN, timeline
from perdure.interfaces.cli.goals.run_ui.run_ui import raise_failure
from perdure.interfaces.cli.shell_hints import exact
from perdure.kernel.events import (
    Ask,
    Body,
    Effect,
    GoalBegun,
    MindSpec,
    ToolCall,
    ToolError,
    Wait,
)
from perdure.kernel.fold import GoalState
from perdure.kernel.journal import Journal, JournalDeps
from perdure.minds.command import CommandMind
from tests.interfaces.cli.terminal import Terminal
from tests.minds.history import History

OPTIONS = Options(json=False, home=None, verbose=False, debug=False, no_input=False)


def state_of(*bodies: Body) -> GoalState:
    history = History(CommandMind("true"))
    history.add(*bodies)
    return history.state


def hints(*bodies: Body, options: Options = OPTIONS) -> list[str]:
    return next_lines(options, GoalView.of_state(state_of(*bodies), queue="cli"))


def test_each_command_stands_below_what_it_is_for() -> None:
    assert hints(Ask("a.1", "a", "Which?", ("yes", "no"))) == [
        "a asks: Which? (yes, no)",
        "  perdure goal answer g ANSWER --resume",
    ]


def test_commands_are_for_the_same_home_which_stands_before_what_is_not_an_option() -> None:
    options = Options(json=False, home="h", verbose=False, debug=False, no_input=False)
    said = hints(Wait("a.1", "a", signal="-1"), options=options)
    assert said[1] == "  perdure goal signal g --resume --home h -- -1 JSON"


def test_the_command_of_a_script_is_printed_unchanged() -> None:
    assert pasteable_command(OPTIONS, NextCommand("python 'a b.py'", "why")) == "python 'a b.py'"


def test_a_traceback_is_indented_and_cannot_change_the_terminal() -> None:
    assert failure_lines(ToolError("c", "m", traceback="File\n  x\x1b[2J\n")) == ["    File", "      x\\x1b[2J"]
    assert failure_lines(ToolError("c", "m")) == failure_lines(None) == []


@pytest.mark.parametrize(
    ("typed", "is_on_path", "shown"),
    [("perdure", True, "perdure"), ("bin/perdure", True, "perdure"), ("bin/perdure", False, "bin/perdure")],
)
def test_the_program_is_named_so_that_pasting_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, is_on_path: bool, shown: str
) -> None:
    program = tmp_path / "bin" / "perdure"
    program.parent.mkdir()
    program.touch(mode=0o700)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(program.parent) if is_on_path else str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(program) if typed == "perdure" else typed])
    assert exact(OPTIONS, "run") == f"{shown} run"


def test_the_module_is_named_when_python_was_started_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["src/perdure/__main__.py"])
    assert exact(OPTIONS, "run") == f"{shlex.quote(sys.executable)} -m perdure run"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--resume", ""],
        ["run", "--resume", " "],
        *[["goal", verb, ""] for verb in ("show", "resume", "replay", "cancel", "approve", "deny", "watch", "export")],
        ["goal", "answer", "", "yes"],
        ["goal", "answer", "20", "", "yes"],
        ["goal", "decide", "20", "", "skip"],
        ["goal", "decide", "", "a.1", "skip"],
        ["goal", "deny", "20", ""],
    ],
    ids=" ".join,
)
def test_an_empty_id_is_refused(perdure: Terminal, arguments: list[str]) -> None:
    Path("plan.yaml").write_text("goal: x\nsteps: [{id: a, ask: {question: q}}]")
    perdure("run", "--plan", "plan.yaml")
    before = perdure.goals()
    assert perdure(*arguments) == 2
    assert "it is empty" in perdure.err
    assert perdure.goals() == before


def test_the_one_problem_of_a_plan_is_reported_once(perdure: Terminal) -> None:
    Path("plan.yaml").write_text("goal: x\nsteps: [{id: a, exec: [[]]}]")
    assert perdure("run", "--plan", "plan.yaml") == 2
    assert perdure.err == "perdure: plan.yaml:2: 'exec' of step 'a': Expected a string, found a list.\n"


def test_an_ephemeral_run_that_is_invalid_says_one_sentence(perdure: Terminal) -> None:
    assert perdure("run", "--ephemeral", "--timeout", "soon", "--", "true") == 2
    assert len(perdure.err.splitlines()) == 1


def test_what_was_cut_off_says_what_becomes_of_it() -> None:
    calls = [ToolCall(f"{effect}.1", effect, "exec", {}, effect) for effect in get_args(Effect)]
    said = {line.split(".")[0]: line for line in interrupted_lines(state_of(*calls))}
    assert "runs it again" in said["pure"]
    assert "runs it again" in said["idempotent"]
    assert "whether it had its effect" in said["once"]


@pytest.fixture
def cut(ready: Path, tmp_path: Path) -> str:
    """A goal whose worker died in the middle of its only call."""
    identity = WorkerIdentity(tmp_path / "home")

    async def begin() -> str:
        async with Perdure.open() as p:
            ids, deps = SystemIds(), JournalDeps(p.database.state_store(), SystemClock(), SystemIds(), identity.worker)
            begun = GoalBegun("true", MindSpec("command"), workdir=str(ready))
            journal = Journal.begin(deps, begun, ids.goal_id("true"))
            journal.record(ToolCall("command.1", "command", "exec", {"argv": ["true"]}, "once"), is_decision=True)
            await journal.commit()
            return journal.goal_id

    goal = asyncio.run(begin())
    identity.close()
    return goal


def test_what_no_worker_has_claimed_yet_is_resumed_before_it_is_decided(perdure: Terminal, cut: str) -> None:
    for words in (("command.1", "skip"), ("skip",)):
        assert perdure("goal", "decide", cut, *words) == 4
        assert f"Resume it first: perdure goal resume {cut}\n" in perdure.err
    for bad in (("command.1",), ("command.1", "shrug"), ("a", "b", "skip"), ("", "skip")):
        assert perdure("goal", "decide", cut, *bad) == 2
    assert perdure("run", "--resume", cut) == 5
    assert f"  perdure goal decide {cut} command.1 skip --resume\n" in perdure.err
    assert perdure.json("goal", "show", cut)["unknown"][0]["call_id"] == "command.1"
    assert perdure("goal", "decide", cut, "skip", "--resume") == 0


def test_an_open_question_is_shown_with_its_words() -> None:
    assert timeline(state_of(Ask("a.1", "a", "Which?"))).rows[0][STATE_COLUMN] == "asks: Which?"


def test_a_reader_who_has_gone_is_named_as_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BrokenPipeError):
        raise_failure(BrokenPipeError())
    assert "was closed by its reader, so the exit code is 1" in capsys.readouterr().err
