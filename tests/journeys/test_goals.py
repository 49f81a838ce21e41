"""Goals through the real program: run, kill with SIGKILL, resume, decide, answer, replay."""

import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

PLAN = """
goal: publish
steps:
  - {id: fetch, exec: "sh -c 'echo fetch >> done.txt'"}
  - {id: build, exec: "sh -c 'echo build >> done.txt; test -e go || sleep 600'", needs: [fetch]}
  - {id: sure, ask: {question: "Publish?", options: ["yes", "no"]}, needs: [build]}
  - {id: send, exec: "sh -c 'echo $PERDURE_OUT_SURE >> done.txt'", needs: [sure]}
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "plan.yaml").write_text(PLAN)
    return folder


def perdure(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "perdure", *arguments], capture_output=True, text=True, check=False)


def goals() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(perdure("run", "--list", "--json").stdout)["goals"]
    return found


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(3000):
        if is_so():
            return
        select.select([], [], [], 0.01)
    raise AssertionError("it never came to that")


def killed_in_build(work: Path) -> str:
    """Start the plan, kill the program while `build` runs, and return the goal's id."""
    program = subprocess.Popen(
        [sys.executable, "-m", "perdure", "run", "--plan", "plan.yaml"], stderr=subprocess.DEVNULL
    )
    done = work / "done.txt"
    until(lambda: done.exists() and "build" in done.read_text())
    program.send_signal(signal.SIGKILL)
    program.wait()
    (work / "go").touch()
    return str(goals()[0]["id"])


def test_a_command_prints_its_output_and_is_done(work: Path) -> None:
    done = perdure("run", "echo hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    (goal,) = goals()
    assert (goal["status"], goal["steps"]) == ("done", 1)
    again = perdure("run", "--resume", goal["id"])
    assert (again.returncode, again.stdout) == (0, "hello\n")
    assert goals() == [goal]
    assert list(work.iterdir()) == [work / "plan.yaml"]


@pytest.mark.usefixtures("work")
def test_a_command_that_fails_ends_with_one_and_tells_its_own_code() -> None:
    done = perdure("run", "--json", "sh -c 'exit 7'")
    assert done.returncode == 1
    assert json.loads(done.stdout)["output"]["exit_code"] == 7


def test_a_plan_that_was_killed_repeats_no_effect_in_silence(work: Path) -> None:
    goal = killed_in_build(work)
    resumed = perdure("run", "--resume", goal)
    assert resumed.returncode == 5
    assert "build.1" in resumed.stderr
    assert "outcome unknown" in resumed.stderr
    assert (work / "done.txt").read_text() == "fetch\nbuild\n"
    decided = perdure("goal", "decide", goal, "build.1", "skip")
    assert decided.returncode == 5
    answered = perdure("goal", "answer", goal, "sure.1", "yes")
    assert answered.returncode == 0
    assert (work / "done.txt").read_text() == "fetch\nbuild\nyes\n"
    assert perdure("goal", "replay", goal).returncode == 0


def test_an_idempotent_step_is_run_again_at_once(work: Path) -> None:
    (work / "plan.yaml").write_text(PLAN.replace("needs: [fetch]", "needs: [fetch], effect: idempotent"))
    goal = killed_in_build(work)
    assert perdure("run", "--resume", goal).returncode == 5
    assert (work / "done.txt").read_text() == "fetch\nbuild\nbuild\n"


def test_what_a_killed_program_left_running_is_ended_before_anything_is_repeated(work: Path) -> None:
    (work / "plan.yaml").write_text(
        PLAN.replace("test -e go ||", "test -e go || echo $$ > pid; test -e go ||").replace(
            "needs: [fetch]", "needs: [fetch], effect: idempotent"
        )
    )
    goal = killed_in_build(work)
    until(lambda: (work / "pid").exists() and (work / "pid").read_text().strip() != "")
    pid = int((work / "pid").read_text())
    perdure("run", "--resume", goal)
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]


def started(work: Path) -> "subprocess.Popen[str]":
    """Start the plan, and wait until `build` runs."""
    program = subprocess.Popen(
        [sys.executable, "-c", START, "run", "--plan", "plan.yaml"], stderr=subprocess.PIPE, text=True
    )
    done = work / "done.txt"
    until(lambda: done.exists() and "build" in done.read_text())
    return program


START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from perdure.interfaces.cli import main; main()"
)
"""As a terminal starts it: who is started in the background of a test may have been told to ignore Ctrl-C."""


def test_one_interrupt_ends_after_the_step_and_says_how_to_go_on(work: Path) -> None:
    quick = PLAN.replace("test -e go || sleep 600", "while ! test -e go; do sleep 0.05; done")
    (work / "plan.yaml").write_text(quick)
    with started(work) as program:
        program.send_signal(signal.SIGINT)
        assert program.stderr is not None
        assert "Ending after the step" in program.stderr.readline()
        (work / "go").touch()
        assert program.wait(30) == 130
        assert "perdure run --resume" in program.stderr.read()
    assert perdure("run", "--resume", goals()[0]["id"]).returncode == 5


def test_a_second_interrupt_ends_at_once_and_leaves_the_step_unknown(work: Path) -> None:
    with started(work) as program:
        program.send_signal(signal.SIGINT)
        assert program.stderr is not None
        assert "Ending after the step" in program.stderr.readline()
        program.send_signal(signal.SIGINT)
        assert program.wait(30) == 130
        assert "Traceback" not in program.stderr.read()
    (work / "go").touch()
    assert perdure("run", "--resume", goals()[0]["id"]).returncode == 5


def test_a_goal_that_is_being_run_cannot_be_resumed_by_another(work: Path) -> None:
    program = started(work)
    again = perdure("run", "--resume", goals()[0]["id"])
    assert again.returncode == 4
    assert "being worked on" in again.stderr
    program.kill()
    program.communicate()


def test_of_many_that_resume_at_once_one_runs_it(work: Path) -> None:
    (work / "plan.yaml").write_text(PLAN.replace("needs: [fetch]", "needs: [fetch], effect: idempotent"))
    goal = killed_in_build(work)
    resume = [sys.executable, "-m", "perdure", "run", "--resume", goal]
    many = [subprocess.Popen(resume, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(6)]
    assert {one.wait(60) for one in many} <= {4, 5}
    assert (work / "done.txt").read_text() == "fetch\nbuild\nbuild\n"


def test_a_cancelled_goal_ends_with_130(work: Path) -> None:
    goal = killed_in_build(work)
    assert perdure("goal", "cancel", goal).returncode == 130
    assert goals()[0]["reason"] == "cancelled"


@pytest.mark.usefixtures("work")
def test_replay_names_an_event_that_was_tampered_with() -> None:
    perdure("run", "echo hello")
    with closing(sqlite3.connect(Path(os.environ["PERDURE_HOME"]) / "perdure.db")) as plain, plain:
        plain.execute("DROP TRIGGER events_are_never_changed")
        plain.execute("UPDATE events SET payload = replace(payload, 'hello', 'jello') WHERE seq = 3")
    done = perdure("goal", "replay", "20")
    assert done.returncode == 7
    assert "Event 3" in done.stderr


def test_a_plan_that_makes_no_sense_is_refused_with_file_and_line(work: Path) -> None:
    (work / "plan.yaml").write_text("goal: x\nsteps:\n  - {id: a, exec: [true], needs: [b]}\n")
    done = perdure("run", "--plan", "plan.yaml")
    assert done.returncode == 2
    assert "plan.yaml:3" in done.stderr
    assert goals() == []


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run"], 2),
        (["run", "a", "--list"], 2),
        (["run", "--plan", "nowhere.yaml"], 3),
        (["run", "--resume", "nothing"], 3),
        (["goal", "show", "nothing"], 3),
        (["run", "no-such-program-anywhere"], 1),
        (["run", "'unfinished"], 2),
    ],
)
def test_bad_input_has_its_exit_code_and_one_sentence(arguments: list[str], code: int) -> None:
    done = perdure(*arguments)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
