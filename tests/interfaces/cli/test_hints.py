"""What is printed to go on with: it can be pasted, and pasting it without thinking does no harm."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.goals.hints import exact, next_commands
from perdure.kernel.events import Ask, Body, OutcomeUnknown, ToolCall
from perdure.kernel.fold import GoalState
from perdure.minds.command import CommandMind
from tests.interfaces.cli.terminal import Terminal
from tests.minds.history import History

OPTIONS = Options(json=False, home=None, verbose=False, debug=False, no_input=False)


def state_of(*bodies: Body) -> GoalState:
    history = History(CommandMind("true"))
    history.add(*bodies)
    return history.state


def hints(*bodies: Body, options: Options = OPTIONS) -> list[str]:
    return [line.strip() for line in next_commands(options, state_of(*bodies))]


def test_each_option_of_a_question_has_its_command() -> None:
    said = hints(Ask("a.1", "a", "Which?", ("yes", "not now", "-1")))
    assert [shlex.split(line)[4:] for line in said[1:]] == [
        ["a.1", "yes", "--resume"],
        ["a.1", "not now", "--resume"],
        ["a.1", "--resume", "--", "-1"],
    ]


def test_the_home_stands_before_what_is_no_option() -> None:
    options = Options(json=False, home="h", verbose=False, debug=False, no_input=False)
    assert hints(Ask("a.1", "a", "Which?", ("-1",)), options=options)[1].endswith("a.1 --resume --home h -- -1")


def test_a_shell_refuses_a_command_in_which_the_answer_is_not_filled_in(tmp_path: Path) -> None:
    (tmp_path / "answer").touch()
    command = hints(Ask("a.1", "a", "Which?"))[1].replace("perdure", "echo")
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode != 0
    assert (done.stdout, [path.name for path in tmp_path.iterdir()]) == (b"", ["answer"])


def test_an_unknown_outcome_has_all_three_decisions() -> None:
    said = hints(ToolCall("a.1", "a", "exec", {}, "once"), OutcomeUnknown("a.1", "The worker died."))
    assert said[0].startswith("Nobody knows how a.1 ended. The worker died. Did it happen?")
    assert [shlex.split(line)[5] for line in said[2::2]] == ["skip", "retry", "abort"]
    assert [line.split()[0].strip(":,") for line in said[1::2]] == ["skip", "retry", "abort"]


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


def test_the_one_problem_of_a_plan_is_told_once(perdure: Terminal) -> None:
    Path("plan.yaml").write_text("goal: x\nsteps: [{id: a, exec: [[]]}]")
    assert perdure("run", "--plan", "plan.yaml") == 2
    assert perdure.err == "perdure: plan.yaml:2: 'exec' of step 'a': Expected a text, found a list.\n"


def test_an_ephemeral_run_that_makes_no_sense_says_one_sentence(perdure: Terminal) -> None:
    assert perdure("run", "--ephemeral", "--timeout", "soon", "true") == 2
    assert len(perdure.err.splitlines()) == 1
