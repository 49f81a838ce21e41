"""`perdure.sync`: one function waits, from any thread, with or without an event loop of the caller."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import perdure
from perdure import Goal, GoalFailed, GoalResult, Invalid, NotFound, Perdure, flow
from perdure.sync import Wait

Opened = tuple[Perdure, Wait]
WAITS: list[Wait] = []
TENANT = contextvars.ContextVar("tenant", default="none")

SCRIPT = """
import asyncio, os, signal, sys
import perdure
from perdure import Goal, flow

async def slow() -> int:
    if not os.path.exists("pressed"):
        open("pressed", "w").close()
        os.kill(os.getpid(), signal.{signal})
        await asyncio.sleep(60)
    return 7

def count() -> int:
    with open("counted", "a") as file:
        return file.write(".")

@flow
async def nightly(goal: Goal) -> int:
    await goal.step(count)
    return await goal.options(effect="idempotent").step(slow)

async def run_all(main):
    main()

def main():
    with perdure.sync.open() as (p, wait):
        print(wait(p.goals.options(key="nightly").run(nightly)).value)

{start}
"""


def double(number: int) -> int:
    return number * 2


def explode() -> None:
    raise RuntimeError("boom")


@flow
async def doubled(goal: Goal, number: int) -> int:
    return await goal.step(double, number)


@flow
async def exploding(goal: Goal) -> None:
    await goal.step(explode)


@flow
async def waiting_inside(goal: Goal) -> int:
    return WAITS[0](goal.step(double, 1))


@flow
async def tenant(goal: Goal) -> str:
    return await goal.step(TENANT.get)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    with perdure.sync.open(tmp_path / "home") as opened:
        yield opened


def test_it_runs_a_flow_and_returns_its_result(opened: Opened) -> None:
    p, wait = opened
    assert wait(p.goals.run(doubled, 21)).value == 42
    handle = wait(p.goals.start(doubled, 4))
    assert wait(handle.result(timeout_s=10)).value == 8


async def test_it_works_where_an_event_loop_runs(tmp_path: Path) -> None:
    with perdure.sync.open(tmp_path / "home") as (p, wait):
        assert wait(p.goals.run(doubled, 1)).value == 2
    await asyncio.sleep(0)


def test_two_homes_can_be_open_at_once(opened: Opened, tmp_path: Path) -> None:
    p, wait = opened
    with perdure.sync.open(tmp_path / "other") as (other, wait_there):
        assert wait(p.goals.run(doubled, 1)).value + wait_there(other.goals.run(doubled, 2)).value == 6


def test_several_threads_wait_at_once(opened: Opened) -> None:
    p, wait = opened
    together = threading.Barrier(4)

    def run(number: int) -> GoalResult[int]:
        together.wait(timeout=10)
        return wait(p.goals.run(doubled, number))

    with ThreadPoolExecutor(4) as pool:
        assert [result.value for result in pool.map(run, range(4))] == [0, 2, 4, 6]


def test_an_exception_comes_with_its_traceback(opened: Opened) -> None:
    p, wait = opened
    with pytest.raises(GoalFailed, match="boom") as caught:
        wait(p.goals.run(exploding))
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[0] == "test_an_exception_comes_with_its_traceback"
    assert "result_of" in frames


def test_the_context_of_the_caller_reaches_the_flow(opened: Opened) -> None:
    p, wait = opened
    token = TENANT.set("ada")
    try:
        assert wait(p.goals.run(tenant)).value == "ada"
    finally:
        TENANT.reset(token)


def test_a_wait_after_the_block_is_invalid(tmp_path: Path) -> None:
    with perdure.sync.open(tmp_path / "home") as (p, wait):
        assert wait(p.goals.run(doubled, 1)).value == 2
    with pytest.raises(Invalid, match="The home is closed"):
        wait(p.goals.run(doubled, 1))


def test_a_wait_on_the_thread_of_the_home_is_invalid(opened: Opened) -> None:
    p, wait = opened
    WAITS[:] = [wait]
    with pytest.raises(GoalFailed, match="would wait for itself. Use `await` there"):
        wait(p.goals.run(waiting_inside))


def test_a_wait_that_the_close_meets_is_cancelled(tmp_path: Path) -> None:
    started, ended = threading.Event(), threading.Event()

    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    def run(wait: Wait) -> None:
        with pytest.raises(asyncio.CancelledError):
            wait(endless())
        ended.set()

    with perdure.sync.open(tmp_path / "home") as (_, wait):
        thread = threading.Thread(target=run, args=(wait,))
        thread.start()
        assert started.wait(timeout=10)
    assert ended.wait(timeout=10)
    thread.join()


def test_an_exit_of_a_coroutine_ends_the_caller_and_not_the_home(opened: Opened) -> None:
    p, wait = opened

    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        wait(leave())
    assert wait(p.goals.run(doubled, 1)).value == 2


def test_a_home_that_cannot_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("not a folder")
    with pytest.raises(perdure.PerdureError), perdure.sync.open(tmp_path / "home"):
        pass
    with pytest.raises(Invalid, match="recover"), perdure.sync.open(tmp_path / "other", recover=True):
        pass
    assert not any(thread.name == "perdure-sync" for thread in threading.enumerate())


def test_an_error_of_the_block_closes_the_home(tmp_path: Path) -> None:
    with pytest.raises(NotFound), perdure.sync.open(tmp_path / "home") as (p, wait):
        wait(p.goals.find("none"))
    with pytest.raises(Invalid, match="closed"):
        wait(p.goals.run(doubled, 1))
    assert not any(thread.name == "perdure-sync" for thread in threading.enumerate())


def run_script(folder: Path, signal_name: str, start: str = "main()") -> subprocess.CompletedProcess[str]:
    script = folder / "nightly.py"
    script.write_text(SCRIPT.format(signal=signal_name, start=start))
    environment = {**os.environ, "PERDURE_HOME": str(folder / "home")}
    return subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_ctrl_c_cancels_the_goal_and_says_how_to_resume_it(tmp_path: Path) -> None:
    ended = run_script(tmp_path, "SIGINT")
    assert ended.returncode == -signal.SIGINT, ended.stderr
    assert ended.stderr.startswith("Interrupted. Recorded steps are kept. To resume:\n"), ended.stderr
    assert "nightly.py" in ended.stderr
    assert "Traceback" not in ended.stderr
    again = run_script(tmp_path, "SIGINT")
    assert (again.returncode, again.stdout) == (0, "7\n"), again.stderr
    assert (tmp_path / "counted").read_text() == "."


@pytest.mark.parametrize("start", ["main()", "asyncio.run(run_all(main))"])
def test_a_killed_script_resumes_by_its_key(tmp_path: Path, start: str) -> None:
    assert run_script(tmp_path, "SIGKILL", start).returncode == -signal.SIGKILL
    again = run_script(tmp_path, "SIGKILL", start)
    assert (again.returncode, again.stdout) == (0, "7\n"), again.stderr
    assert (tmp_path / "counted").read_text() == "."
