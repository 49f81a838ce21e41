"""Flows and the verbs beside them, through the real program: killed, watched, forked, deleted."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journeys.test_goals import START, Beside, beside, heard, perdure, started, until, work

__all__ = ["beside", "work"]

FLOW = """
import pathlib, time
from perdure import flow

def charge(name):
    with open("charged.txt", "a") as book:
        book.write(f"{name}\\n")
    if name == "bob":
        while not pathlib.Path("go").exists():
            time.sleep(0.02)
    return f"{name} charged"

def is_charged(name):
    return name in pathlib.Path("charged.txt").read_text().split()

@flow
async def bill(goal, *names):
    for name in names:
        await goal.options(check=is_charged).step(charge, name)
    return f"{len(names)} charged"
"""


def test_a_killed_flow_resumes_by_import_and_charges_each_customer_once(work: Path, beside: Beside) -> None:
    (work / "billing.py").write_text(FLOW)
    program = Path(sys.executable).parent / "perdure"
    arguments = ["--flow", "billing:bill", "--args", '["ann", "bob", "eve"]']
    running = subprocess.Popen([program, "run", *arguments], stderr=subprocess.DEVNULL)
    charged = work / "charged.txt"
    until(lambda: charged.exists() and "bob" in charged.read_text())
    running.send_signal(signal.SIGKILL)
    running.wait(30)
    (work / "go").touch()
    assert beside.goal()["status"] == "interrupted"
    done = subprocess.run([program, "run", "--continue"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3 charged\n")
    assert "done, says its check" in done.stderr
    assert charged.read_text() == "ann\nbob\neve\n"
    assert beside("goal", "replay", beside.goal()["id"]) == 0


def test_a_caller_that_watches_may_leave_and_the_goal_does_not_notice(work: Path, beside: Beside) -> None:
    with started(work) as program:
        watching = subprocess.Popen(
            [sys.executable, "-c", START, "goal", "watch", beside.goal()["id"]], stderr=subprocess.PIPE, text=True
        )
        with watching:
            heard(watching, "step build: started")
            watching.send_signal(signal.SIGINT)
            assert watching.wait(30) == 130
            assert watching.stderr is not None
            assert watching.stderr.read().endswith("Interrupted.\n")
        assert beside.goal()["status"] == "running"
        assert program.poll() is None


def test_what_happens_is_seen_by_a_caller_that_watches_until_the_end(work: Path, beside: Beside) -> None:
    with started(work) as program:
        goal = beside.goal()
        watch = [sys.executable, "-m", "perdure", "goal", "watch", goal["id"], "--jsonl", "--after", "3"]
        with subprocess.Popen(watch, stdout=subprocess.PIPE, text=True) as watching:
            assert watching.stdout is not None
            first = json.loads(watching.stdout.readline())
            beside("goal", "cancel", goal["id"])
            rest = [json.loads(line) for line in watching.stdout]
            assert watching.wait(30) == 130
        assert program.wait(30) == 130
    assert (first["seq"], first["payload"]["call_id"]) == (4, "build.1")
    assert [event["seq"] for event in rest] == list(range(5, 5 + len(rest)))
    assert rest[-1]["payload"]["reason"] == "cancelled"


def test_a_caller_that_watches_learns_when_a_goal_waits_or_no_worker_runs_it(work: Path, beside: Beside) -> None:
    with started(work) as program:
        goal = beside.goal()["id"]
        watch = [sys.executable, "-m", "perdure", "goal", "watch", goal]
        with subprocess.Popen(watch, stderr=subprocess.PIPE, text=True) as watching:
            heard(watching, "step build: started")
            program.kill()
            program.wait(30)
            heard(watching, f"{goal}: interrupted")
            heard(watching, f"perdure goal resume {goal}")
            assert beside("goal", "cancel", goal) == 0
            assert watching.wait(30) == 130


ASKS = "goal: ship\nsteps:\n  - {id: sure, ask: {question: 'Ship it?', options: ['yes', 'no']}}\n"


@pytest.mark.parametrize("form", ["--json", "--jsonl"])
def test_standard_error_says_what_a_goal_waits_for_that_a_program_watches(
    work: Path, beside: Beside, form: str
) -> None:
    (work / "asks.yaml").write_text(ASKS)
    assert beside("run", "--plan", "asks.yaml", "--no-input") == 5
    goal = beside.goal()["id"]
    watch = [sys.executable, "-m", "perdure", "goal", "watch", goal, form]
    with subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        heard(watching, f"{goal}: waiting (person)")
        heard(watching, "sure asks: Ship it? (yes, no)")
        heard(watching, f"perdure goal answer {goal} ANSWER")
        assert beside("goal", "answer", goal, "yes", "--resume") == 0
        assert watching.stdout is not None
        printed = [json.loads(line) for line in (watching.stdout if form == "--jsonl" else [watching.stdout.read()])]
        assert watching.wait(30) == 0
    assert printed[-1].get("status", printed[-1].get("type")) in ("done", "termination")


@pytest.mark.parametrize(("typed", "code"), [("n", 1), ("y", 0)])
def test_a_terminal_is_asked_before_a_goal_is_deleted(work: Path, typed: str, code: int, beside: Beside) -> None:
    assert work.is_dir()
    beside("run", "--", "true")
    goal = beside.goal()["id"]
    ours, its = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "perdure", "goal", "delete", goal], stdin=its, stdout=subprocess.DEVNULL, stderr=its
    )
    os.close(its)
    seen = b""
    while b"Delete it permanently?" not in seen:
        seen += os.read(ours, 4096)
    assert f"{goal}: done, 4 events".encode() in seen
    os.write(ours, typed.encode() + b"\n")
    assert program.wait(60) == code
    os.close(ours)
    assert beside("goal", "show", goal) == (3 if code == 0 else 0)


def test_a_flow_of_a_script_is_resumed_by_the_script_and_every_command_says_so(work: Path, beside: Beside) -> None:
    script = work / "script.py"
    script.write_text(
        "import asyncio\nfrom perdure import Perdure, flow\n\n"
        "@flow\nasync def asks(goal):\n    return await goal.ask('Well?')\n\n"
        "async def main():\n    async with Perdure.open() as p:\n"
        "        print((await p.goals.options(key='a').run(asks)).value)\n\nasyncio.run(main())\n"
    )
    run = [sys.executable, str(script)]
    waits = subprocess.run(run, check=False, capture_output=True, text=True)
    assert (waits.returncode, "waits for a person: 'Well?'" in waits.stderr) == (1, True), waits.stderr
    goal = beside.goal()["id"]
    again = f"python {script}\n"
    before = beside.goal()["last_seq"]
    for words in (
        ("run", "--resume", goal),
        ("run", "--continue"),
        ("goal", "answer", goal, "well", "--resume"),
        ("goal", "fork", goal, "--at", "1", "--resume"),
    ):
        refused = perdure(*words)
        assert (refused.returncode, refused.stderr.endswith(again)) == (3, True), refused.stderr
        assert (beside.goal()["id"], beside.goal()["last_seq"]) == (goal, before), "nothing was recorded"
    shown = perdure("goal", "show", goal).stdout
    assert "ANSWER\n" in shown
    assert "--resume" not in shown
    offered = f"Its flow is defined in this script.\n  python {script}\n"
    assert offered in waits.stderr
    assert shown.endswith(offered)
    assert perdure("goal", "answer", goal, "well").stdout.endswith(offered)
    assert perdure("goal", "show", goal).stdout.endswith(offered)
    without_key = work / "without_key.py"
    without_key.write_text(script.read_text().replace(".options(key='a')", ""))
    waits = subprocess.run([sys.executable, str(without_key)], check=False, capture_output=True, text=True)
    assert f"To resume this goal, call `await p.goals.resume('{beside.goal()['id']}')` in the script." in waits.stderr
    moved = script.rename(work / "moved.py")
    done = subprocess.run([sys.executable, str(moved)], check=True, capture_output=True, text=True)
    assert done.stdout == "well\n", "the key is the same wherever the script is"
    fork = perdure("goal", "fork", goal, "--at", "1")
    assert fork.stdout.endswith(again)
