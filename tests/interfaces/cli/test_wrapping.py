"""Long lines on a terminal: broken between words, except for commands."""

import io
import sys
from pathlib import Path

import pytest

from perdure.interfaces.cli.command_result import Table
from perdure.interfaces.cli.errors import run
from perdure.interfaces.cli.goals.run_ui.progress import Lines, print_end
from perdure.interfaces.cli.goals.run_ui.writer import Writer
from perdure.interfaces.cli.output.terminal import command_below, wrapped_for
from tests.interfaces.cli.terminal import Screen

LONG = "step /pay#0: The worker ended between the start of this call and the record of its outcome; it is unknown."


def test_a_long_line_is_broken_between_words_on_a_terminal_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    shown = wrapped_for(LONG, Screen())
    assert shown.split() == LONG.split()
    assert [len(line) <= 60 for line in shown.split("\n")] == [True, True]
    assert wrapped_for(LONG, io.StringIO()) == LONG


def test_a_command_that_can_be_pasted_is_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for program in ("perdure", "/opt/bin/perdure", "python"):
        command = f"  {program} goal decide 20261116-091856-publish-hk4zm6 /pay#0.1 retry --resume"
        assert wrapped_for(command, Screen()) == command


def test_progress_and_the_end_of_a_run_are_wrapped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    writer = Writer()
    Lines(writer).say(LONG)
    writer.wait(10)
    writer.close()
    print_end(Table((), ()), [LONG])
    assert [len(line) <= 60 for line in screen.lines] == [True] * 4


def test_a_command_at_the_end_of_an_error_has_a_line_of_its_own_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text("goal: g")
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    assert run(["run", "plan.yaml"]) == 2
    assert screen.lines == ["perdure: plan.yaml is a file. To run it as a plan:", "  perdure run --plan plan.yaml"]
    assert command_below("Stop it: perdure serve runs. Then wait.") == "Stop it: perdure serve runs. Then wait."


@pytest.mark.parametrize(
    ("said", "command"),
    [
        (
            "It is missing. Run: /opt/my/bin/python3 -m pip install 'x[y]>=3.2'",
            "/opt/my/bin/python3 -m pip install 'x[y]>=3.2'",
        ),
        ("It is missing. Run: uv pip install --python /p x", "uv pip install --python /p x"),
        ("It needs a key. Run `perdure model login openai`.", "perdure model login openai"),
    ],
)
def test_what_installs_or_connects_can_be_copied_too(said: str, command: str) -> None:
    shown = command_below(said)
    assert shown.split("\n") == [said.partition(" Run")[0] + " Run:", f"  {command}"]
    assert wrapped_for(shown, Screen()).split("\n")[1] == f"  {command}"
