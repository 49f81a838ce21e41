"""Goals through the real program: run, kill with SIGKILL, interrupt, resume, decide, answer, cancel from beside."""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.interfaces.cli.errors import run

PLAN = """
goal: publish
steps:
  - {id: fetch, exec: "sh -c 'echo fetch >> done.txt'"}
  - {id: build, exec: "sh -c 'echo build >> done.txt; test -e go || sleep 600'", needs: [fetch]}
  - {id: sure, ask: {question: "Publish?", options: ["yes", "no"]}, needs: [build]}
  - {id: send, exec: "sh -c 'echo $PERDURE_OUT_SURE >> done.txt'", needs: [sure]}
"""
IDEMPOTENT = PLAN.replace("needs: [fetch]", "needs: [fetch], effect: idempotent")

START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from perdure.interfaces.cli import main; main()"
)
"""As a terminal starts it: who is started in the background of a test may have been told to ignore Ctrl-C."""


@pytest.fixture
def work(tmp_path: Path, migrated_sqlite: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a plan, beside a home whose database is there already."""
    (tmp_path / "home").mkdir(mode=0o700)
    shutil.copy(migrated_sqlite, tmp_path / "home" / "perdure.db")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "plan.yaml").write_text(PLAN)
    return folder


def perdure(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "perdure", *arguments], capture_output=True, text=True, check=False)


class Beside:
    """The same commands in this process, which is quicker: somebody else beside the program."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.err = self.out = ""

    def __call__(self, *arguments: str) -> int:
        code = run(arguments)
        self.out, self.err = self._capsys.readouterr()
        return code

    def goal(self) -> dict[str, Any]:
        assert self("run", "--list", "--json") == 0
        found: dict[str, Any] = json.loads(self.out)["goals"][0]
        return found


@pytest.fixture
def beside(capsys: pytest.CaptureFixture[str]) -> Beside:
    return Beside(capsys)


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(3000):
        if is_so():
            return
        select.select([], [], [], 0.01)
    raise AssertionError("it never came to that")


@contextmanager
def started(work: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start the plan, and wait until `build` runs."""
    program = subprocess.Popen(
        [sys.executable, "-c", START, "run", "--plan", "plan.yaml"], stderr=subprocess.PIPE, text=True
    )
    try:
        done = work / "done.txt"
        until(lambda: done.exists() and "build" in done.read_text())
        yield program
    finally:
        program.kill()
        program.communicate()
        (work / "go").touch()


def killed_in_build(work: Path) -> None:
    """Start the plan, and kill the program while `build` runs."""
    with started(work) as program:
        program.send_signal(signal.SIGKILL)
        program.wait(30)


def heard(program: "subprocess.Popen[str]", words: str) -> None:
    """Read what the program says until it says these words."""
    assert program.stderr is not None
    for line in program.stderr:
        if words in line:
            return
    raise AssertionError(f"{words!r} was never said")


def test_a_command_makes_the_home_and_is_done(work: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "home")
    done = perdure("run", "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    again = perdure("run", "--continue")
    assert again.returncode == 3
    assert list(work.iterdir()) == [work / "plan.yaml"]


def test_a_plan_that_was_killed_repeats_no_effect_in_silence(work: Path, beside: Beside) -> None:
    killed_in_build(work)
    goal = beside.goal()
    assert goal["status"] == "interrupted"
    resumed = perdure("run", "--resume", goal["id"])
    assert resumed.returncode == 5
    assert f"perdure goal decide {goal['id']} build.1 retry --resume" in resumed.stderr
    assert (work / "done.txt").read_text() == "fetch\nbuild\n"
    assert beside("goal", "decide", goal["id"], "build.1", "skip", "--value", '"built"', "--resume") == 5
    assert beside("goal", "answer", goal["id"], "yes", "--resume") == 0
    assert (work / "done.txt").read_text() == "fetch\nbuild\nyes\n"
    assert beside("goal", "replay", goal["id"]) == 0


def test_what_a_killed_program_left_running_is_ended_before_an_idempotent_step_is_repeated(
    work: Path, beside: Beside
) -> None:
    (work / "plan.yaml").write_text(IDEMPOTENT.replace("test -e go ||", "test -e go || echo $$ > pid; test -e go ||"))
    killed_in_build(work)
    until(lambda: (work / "pid").exists() and (work / "pid").read_text().strip() != "")
    pid = int((work / "pid").read_text())
    assert perdure("run", "--continue").returncode == 5
    assert (work / "done.txt").read_text() == "fetch\nbuild\nbuild\n"
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]
    assert beside.goal()["waiting_for"] == "person"


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_one_interrupt_ends_after_the_step_and_says_how_to_continue(
    kind: signal.Signals, work: Path, beside: Beside
) -> None:
    (work / "plan.yaml").write_text(PLAN.replace("|| sleep 600", "|| while ! test -e go; do sleep 0.05; done"))
    with started(work) as program:
        program.send_signal(kind)
        heard(program, "Stopping after the running step")
        (work / "go").touch()
        heard(program, f"perdure goal resume {beside.goal()['id']}")
        assert program.wait(30) == 130
    assert beside("run", "--continue") == 5
    assert (work / "done.txt").read_text() == "fetch\nbuild\n"


def test_a_second_interrupt_ends_at_once_and_leaves_nothing_running(work: Path, beside: Beside) -> None:
    (work / "plan.yaml").write_text(PLAN.replace("sleep 600", "exec sleep 600").replace("echo build", "echo $$ build"))
    with started(work) as program:
        pid = int((work / "done.txt").read_text().split()[1])
        program.send_signal(signal.SIGINT)
        heard(program, "Stopping after the running step")
        program.send_signal(signal.SIGINT)
        assert program.wait(30) == 130
        assert program.stderr is not None
        said = program.stderr.read()
    assert "Traceback" not in said
    assert f"  perdure goal resume {beside.goal()['id']}\n" in said
    assert not Path(f"/proc/{pid}").exists()
    assert beside("run", "--continue") == 5
    assert "outcome unknown" in beside.err


def test_an_interrupt_ends_a_pause(work: Path, beside: Beside) -> None:
    (work / "plan.yaml").write_text("goal: nap\nsteps:\n  - {id: nap, wait: 50s}\n")
    program = subprocess.Popen(
        [sys.executable, "-c", START, "run", "--plan", "plan.yaml"], stderr=subprocess.PIPE, text=True
    )
    with program:
        heard(program, "waits until")
        program.send_signal(signal.SIGHUP)
        assert program.wait(30) == 130
    assert beside.goal()["waiting_for"] == "timer"


def test_a_caller_beside_can_neither_resume_a_running_goal_nor_fail_to_end_it(work: Path, beside: Beside) -> None:
    with started(work) as program:
        goal = beside.goal()
        assert goal["status"] == "running"
        assert beside("run", "--resume", goal["id"]) == 4
        assert "being worked on" in beside.err
        assert beside("goal", "cancel", goal["id"]) == 0
        assert beside.out == f"{goal['id']} is cancelled.\n"
        assert program.wait(30) == 130
    assert beside.goal()["reason"] == "cancelled"
    assert beside("goal", "cancel", goal["id"]) == 4


def test_of_many_that_resume_at_once_one_runs_it(work: Path) -> None:
    (work / "plan.yaml").write_text(IDEMPOTENT)
    killed_in_build(work)
    resume = [sys.executable, "-m", "perdure", "run", "--continue"]
    many = [subprocess.Popen(resume, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(4)]
    assert {one.wait(60) for one in many} <= {3, 4, 5}
    assert (work / "done.txt").read_text() == "fetch\nbuild\nbuild\n"


def test_a_goal_continues_when_its_output_is_not_read(work: Path, beside: Beside) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    text = "echo hello; echo more > more.txt"
    try:
        done = subprocess.run(
            [sys.executable, "-m", "perdure", "run", "--shell", text],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writing)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert (work / "more.txt").exists()
    assert beside.goal()["status"] == "done"


HOSTILE = r"""
goal: "paint \e[31m [bold]x[/bold]"
steps:
  - id: first
    exec: ["sh", "-c", "printf '\\033[2J\\033]0;owned\\007[red]hi[/red]\\nsecond line'; printf '\\033[2J' >&2"]
  - {id: second, exec: "sleep 0.3", needs: [first]}
  - {id: third, exec: "sh -c 'exit 3'", needs: [second]}
"""
KNOWN = re.compile(r"\x1b\[(\d*)([AKm])|\x1b\[[0-9;]+m|\x1b\[\?25[lh]")


def on_a_terminal(*arguments: str) -> str:
    """Everything that the program writes on a terminal."""
    ours, its = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "perdure", *arguments],
        env={**os.environ, "TERM": "xterm-256color", "LINES": "24"},
        stdin=its,
        stdout=its,
        stderr=its,
    )
    os.close(its)
    seen = b""
    try:
        while some := os.read(ours, 65536):
            seen += some
    except OSError:
        pass  # Linux says so when the last writer has gone
    finally:
        os.close(ours)
        program.wait(60)
    return seen.decode()


def screen(text: str) -> list[str]:
    """What is on the screen in the end."""
    rows, row, column = [""], 0, 0
    for piece in re.finditer(rf"{KNOWN.pattern}|([^\x1b])", text):
        count, kind, letter = piece.groups()
        if kind == "A":
            row = max(row - int(count or 1), 0)
        elif kind == "K":
            rows[row] = ""
        elif letter == "\n":
            row += 1
            rows += [""] * (row == len(rows))
        elif letter == "\r":
            column = 0
        elif letter is not None:
            rows[row] = rows[row][:column].ljust(column) + letter + rows[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in rows]


def test_a_terminal_shows_every_step_once_and_obeys_no_tool(work: Path) -> None:
    (work / "plan.yaml").write_text(HOSTILE)
    seen = on_a_terminal("run", "--plan", "plan.yaml")
    assert "running" in seen
    assert "\x1b" not in KNOWN.sub("", seen)
    assert "\x07" not in seen
    shown = screen(seen)
    text = "\n".join(shown)
    rows = [line.split()[1] for line in shown if re.match(r" *\d+-\d+ ", line)]
    assert rows == ["first", "second", "third"]
    assert "\\x1b[2J\\x1b]0;owned\\x07[red]hi[/red]\nsecond line\n" in text
    assert "running" not in text
    assert "failed: exit 3" in text
