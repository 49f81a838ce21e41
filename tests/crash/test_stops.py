"""Ctrl-Z: a process stops between two writes, others write at once meanwhile, and it finishes when it is resumed."""

import asyncio
import json
import os
import random
import secrets
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from perdure import Perdure, append_record
from perdure.bots.writing import hold_bots_lock
from perdure.filelock.lock import FileLock
from perdure.interfaces.cli.errors import run
from perdure.interfaces.cli.suspend import stop_between_writes
from tests.crash import program
from tests.crash.size import torture_size
from tests.filelock.processes import state_of, wait_for_state
from tests.interfaces.cli.interviews import WISH, coding
from tests.rows import new_project

FLOW = """
from pathlib import Path
from perdure import flow


def is_enough():
    return Path("enough").exists()


@flow
async def busy(goal):
    while not await goal.step(is_enough):
        pass


@flow
async def short(goal):
    for _ in range(5):
        await goal.step(is_enough)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "flows.py").write_text(FLOW)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def pid_of(perdure: program.Program) -> int:
    assert perdure.process.pid is not None
    return perdure.process.pid


def require_free(lock: Path) -> None:
    """Take a lock as another process would, and without waiting."""
    taken = FileLock(lock, wait_s=0)
    with taken:
        pass
    taken.close()


RUN = ("run", "--flow", "flows:short")
ADD = ("memory", "add", "--type", "lesson", "--title", "T")


@pytest.mark.parametrize(
    ("point", "hits", "arguments", "lock"),
    [
        ("store.append.before", [1, 3, 6], RUN, "perdure.db.lock"),
        ("store.append.after", [2, 3], RUN, "perdure.db.lock"),
        ("store.commit.before", [1], RUN, "perdure.db.lock"),
        ("memory.write.before", [1], ADD, "state/memory.jsonl.lock"),
    ],
)
def test_a_stop_in_the_middle_of_a_write_waits_for_its_end(
    home: Path, folder: Path, point: str, hits: list[int], arguments: tuple[str, ...], lock: str
) -> None:
    perdure = program.start(home, folder, arguments, stopped_at=(point, hits))
    for _ in hits:
        wait_for_state(pid_of(perdure), "T")
        require_free(home / lock)
        os.kill(pid_of(perdure), signal.SIGCONT)
    code, said = perdure.end()
    assert code == 0, said


async def test_a_stop_while_bots_are_written_waits_for_the_database_too(home: Path, folder: Path) -> None:
    """The lock of the bots is held around a transaction, which has to be let in."""
    (folder / "answers.json").write_text(json.dumps(coding()))
    perdure = program.start(
        home, folder, ("new", WISH, "--answers", "answers.json"), stopped_at=("bots.folder.before", [1])
    )
    wait_for_state(pid_of(perdure), "T")
    async with hold_bots_lock(home / "bots", wait_s=0):
        pass
    with closing(sqlite3.connect(home / "perdure.db")) as plain:
        assert plain.execute("SELECT state FROM bot_versions").fetchall() == [("current",)]
    os.kill(pid_of(perdure), signal.SIGCONT)
    code, said = perdure.end()
    assert code == 0, said


def test_a_server_stops_and_continues(home: Path, folder: Path) -> None:
    perdure = program.start(home, folder, ("serve", "--port", "0"))
    perdure.wait_for("Ctrl-C stops the server")
    for _ in range(2):
        os.kill(pid_of(perdure), signal.SIGTSTP)
        wait_for_state(pid_of(perdure), "T")
        os.kill(pid_of(perdure), signal.SIGCONT)
        wait_for_state(pid_of(perdure), "SRD")
    perdure.interrupt()
    assert perdure.end()[0] == 0


def test_a_lock_that_is_held_for_too_long_is_not_waited_for(tmp_path: Path) -> None:
    held = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "a.lock")], stdout=subprocess.PIPE)
    assert held.stdout is not None
    with held.stdout:
        assert held.stdout.read(1) == b"."
        held.send_signal(signal.SIGTSTP)
        wait_for_state(held.pid, "T")
        held.kill()
        held.wait()


HOLDER = """
import signal, sys
from pathlib import Path
from perdure.filelock.lock import FileLock
from perdure.interfaces.cli import suspend

suspend._PATIENCE_S = suspend._LAST_PATIENCE_S = 0.01
with suspend.stop_between_writes(), FileLock(Path(sys.argv[1])):
    print(".", end="", flush=True)
    while True:
        signal.pause()
"""


ECHO = """
import sys
from pathlib import Path
from perdure.filelock.holds import holds
from perdure.filelock.lock import FileLock
from perdure.interfaces.cli.suspend import stop_between_writes

def echo():
    while sys.stdin.buffer.raw.read(1) == b".":
        print("p" if holds.pauses else ".", end="", flush=True)

with stop_between_writes():
    with FileLock(Path(sys.argv[1])):
        echo()
    print("f", end="", flush=True)
    echo()
"""
"""Says for every byte whether a stop is pending; another byte than a dot frees the lock that a stop waits for."""


def test_a_stop_that_waits_is_withdrawn_by_a_resume(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", ECHO, str(tmp_path / "a.lock")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as echo:
        assert answer(echo) == b"."
        for _ in range(10):
            echo.send_signal(signal.SIGTSTP)
            ask_until(echo, b"p")
            echo.send_signal(signal.SIGCONT)
            ask_until(echo, b".")
        assert answer(echo, b"f") == b"f"
        for _ in range(30):  # without a lock, a stop waits for Python
            echo.send_signal(signal.SIGTSTP)
            echo.send_signal(signal.SIGCONT)
            answer(echo)
        for _ in range(3):
            stop_later(echo)
            echo.send_signal(signal.SIGCONT)
            ask_until(echo, b".")
        echo.kill()


def stop_later(echo: "subprocess.Popen[bytes]") -> None:
    """Stop a process, but not in the same moment in which it was resumed."""
    deadline = time.monotonic() + 10
    while state_of(echo.pid) != "T":
        assert time.monotonic() < deadline, "the process does not stop"
        echo.send_signal(signal.SIGTSTP)
        time.sleep(0.02)


def ask_until(echo: "subprocess.Popen[bytes]", expected: bytes) -> None:
    """Ask a process until it gives an answer."""
    deadline = time.monotonic() + 10
    while answer(echo) != expected:
        assert time.monotonic() < deadline


def answer(echo: "subprocess.Popen[bytes]", asked: bytes = b".") -> bytes:
    """Ask a process, which has to run for that."""
    assert echo.stdin is not None
    assert echo.stdout is not None
    echo.stdin.write(asked)
    if not select.select([echo.stdout], [], [], 5)[0]:
        echo.kill()
        pytest.fail("the process stays stopped")
    return echo.stdout.read(1)


@pytest.mark.parametrize("before", [signal.SIG_IGN, lambda *_: None])
def test_a_handler_that_is_there_already_stays(before: Callable[..., None] | signal.Handlers) -> None:
    was = signal.signal(signal.SIGTSTP, before)
    try:
        with stop_between_writes():
            assert signal.getsignal(signal.SIGTSTP) == before
    finally:
        signal.signal(signal.SIGTSTP, was)


def test_a_command_leaves_no_handler_behind() -> None:
    assert run(["--version"]) == 0
    assert signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGCONT) == signal.SIG_DFL


async def test_who_opens_a_home_from_python_gets_no_handler(home: Path) -> None:
    async with Perdure.open(home):
        assert signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
        assert signal.getsignal(signal.SIGCONT) == signal.SIG_DFL


@pytest.mark.torture
async def test_a_busy_run_that_is_stopped_again_and_again_never_keeps_others_waiting(home: Path, folder: Path) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # pytest shows it when the test fails
    chance = random.Random(seed)
    perdure = program.start(home, folder, ("run", "--flow", "flows:busy", "--jsonl"))
    wait_for_state_of_goal(home)
    for number in range(torture_size(small=12)):
        await asyncio.sleep(chance.uniform(0, 0.03))
        os.kill(pid_of(perdure), signal.SIGTSTP)
        wait_for_state(pid_of(perdure), "T")
        require_free(home / "perdure.db.lock")
        async with Perdure.open(home) as p:
            await p.database.transaction(new_project(f"p{number}"))
        append_record(home / "state" / "memory.jsonl", {"title": str(number)})
        assert state_of(pid_of(perdure)) == "T"
        os.kill(pid_of(perdure), signal.SIGCONT)
    (folder / "enough").touch()
    code, said = perdure.end()
    assert code == 0, said
    async with Perdure.open(home) as p:
        (goal,) = await p.goals.list()
        assert (await p.goals.replay(goal.summary.goal_id)).state.status == "done"
        assert await p.database.verify() == []


def wait_for_state_of_goal(home: Path) -> None:
    """Wait until a goal has begun."""
    while not list(home.glob("run/*.lock")):
        time.sleep(0.005)
