"""A step that forks its whole process: its forks end when it times out, is cancelled, or its worker was killed."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, Perdure, failpoints, flow
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import new_goal
from perdure.minds.flow.goal import Goal
from tests import children
from tests.crash import program
from tests.crash.goals import is_running, open_goals
from tests.crash.size import torture_size
from tests.crash.test_rivals import until
from tests.crash.test_server import connected, served

LEASE_S = 1.0
PATIENCE_S = 60
DEAF = [signal.SIGTERM, signal.SIGINT]
STEP = "/fork_and_wait#0.1"


def live_for_ever(folder: str, manner: str) -> None:
    """Be a forked process that does not end by itself."""
    if manner == "ignores TERM":
        signal.pthread_sigmask(signal.SIG_BLOCK, DEAF)
    if manner == "closes descriptors":
        os.closerange(3, 4096)
    if manner == "forks again" and os.fork() == 0:
        os.setsid()
    with (Path(folder) / "told").open("a") as told:
        told.write(f"{os.getpid()}\n")
    while True:
        signal.pause()


def fork_and_wait(folder: str, manner: str) -> None:
    """Fork a process, as `multiprocessing` does, and wait for it."""
    pid = os.fork()
    if pid == 0:
        live_for_ever(folder, manner)
    os.waitpid(pid, 0)


@flow
async def forks(goal: Goal, folder: str, manner: str) -> None:
    await goal.options(retry=4).step(fork_and_wait, folder, manner)


async def work(home: Path, url: str, manner: str) -> None:
    async with open_goals(home, url, lease_s=LEASE_S) as goals:
        await goals.begin(new_goal(forks, (str(home), manner), {}))


def told(folder: Path) -> list[int]:
    path = folder / "told"
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in which steps tell whom they have forked; none of them outlives the test."""
    yield tmp_path
    for pid in told(tmp_path):
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


def killed_beside_its_fork(home: Path, url: str, manner: str) -> list[int]:
    """Kill a worker in the middle of a step that has forked, and return the orphans."""
    before = told(home)
    count = 2 if manner == "forks again" else 1
    worker = children.start(work, home, url, manner)
    until(lambda: len(told(home)) == len(before) + count)
    worker.kill()
    assert children.end_of(worker) == -signal.SIGKILL
    orphans = told(home)[-count:]
    assert all(is_running(orphan) for orphan in orphans)
    return orphans


def notes(home: Path) -> list[Path]:
    return list((home / "run").glob("*/*.forks"))


async def resume(goals: Goals, goal_id: str) -> Any:
    return (await goals.resume_run(goal_id)).state


async def cancel(goals: Goals, goal_id: str) -> Any:
    await goals.cancel(goal_id)
    return await goals.state(goal_id)


async def when_free(home: Path, url: str, act: Callable[[Goals, str], Awaitable[Any]]) -> Any:
    """Do something with the newest goal as soon as its worker is known to be dead."""
    async with open_goals(home, url) as goals, asyncio.timeout(PATIENCE_S):
        goal = (await goals.list())[0]
        while (await goals.find(goal.id)).is_running:  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.05)
        while True:
            try:
                return await act(goals, goal.id)
            except Conflict:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("act", [resume, cancel])
@pytest.mark.parametrize("manner", ["meek", "ignores TERM", "closes descriptors", "forks again"])
async def test_what_a_killed_worker_has_forked_is_ended_before_its_step_is_decided(
    database_url: str, folder: Path, act: Callable[[Goals, str], Awaitable[Any]], manner: str
) -> None:
    orphans = killed_beside_its_fork(folder, database_url, manner)
    state = await when_free(folder, database_url, act)
    assert state.calls[STEP].unknown is not None
    assert not any(is_running(orphan) for orphan in orphans)
    assert notes(folder) == []


@pytest.mark.torture
async def test_however_often_workers_are_killed_beside_a_fork_none_is_left(database_url: str, folder: Path) -> None:
    for number in range(torture_size(small=2)):
        killed_beside_its_fork(folder, database_url, "ignores TERM" if number % 2 == 0 else "closes descriptors")
        await when_free(folder, database_url, cancel)
        assert not any(is_running(pid) for pid in told(folder))


def kill_the_parent() -> None:
    """Kill the parent of this process, and return when it is gone."""
    parent = os.getppid()
    os.kill(parent, signal.SIGKILL)
    until(lambda: os.getppid() != parent)


async def work_until_the_fork_kills_it(home: Path, url: str, point: str) -> None:
    with failpoints.armed(point, kill_the_parent):
        await work(home, url, "meek")


@pytest.mark.parametrize("point", ["tools.forks.note.before"])
def test_a_fork_whose_worker_died_before_it_was_noted_ends_by_itself(
    database_url: str, folder: Path, point: str
) -> None:
    worker = children.start(work_until_the_fork_kills_it, folder, database_url, point)
    assert children.end_of(worker) == -signal.SIGKILL
    until(lambda: bool(notes(folder)) and all(not is_running(int(note.stem)) for note in notes(folder)[0].iterdir()))
    assert told(folder) == []


async def work_beside_a_fork_of_its_own(home: Path, url: str) -> None:
    """Run a goal whose step forks, and fork outside of it, as an application may that embeds us."""
    running = asyncio.create_task(work(home, url, "meek"))
    while not told(home):  # noqa: ASYNC110 (another process tells)
        await asyncio.sleep(0.01)
    if os.fork() == 0:
        live_for_ever(str(home), "meek")
    await running


async def test_what_an_application_forked_outside_of_a_step_is_left_alone(database_url: str, folder: Path) -> None:
    worker = children.start(work_beside_a_fork_of_its_own, folder, database_url)
    until(lambda: len(told(folder)) == 2)
    worker.kill()
    children.end_of(worker)
    await when_free(folder, database_url, cancel)
    of_the_step, of_the_application = told(folder)
    assert not is_running(of_the_step)
    assert is_running(of_the_application)


FLOWS = """
import asyncio, multiprocessing, signal
from pathlib import Path
from perdure import flow

def live_for_ever(folder):
    with (Path(folder) / "told").open("a") as told:
        told.write(f"{multiprocessing.current_process().pid}\\n")
    while True:
        signal.pause()

def started(folder):
    child = multiprocessing.get_context("fork").Process(target=live_for_ever, args=(folder,))
    child.start()
    return child

def fork(folder):
    started(folder).join()

async def fork_async(folder):
    child = started(folder)
    while child.is_alive():
        await asyncio.sleep(0.01)

def fork_twice(folder):
    fork(folder)
    fork(folder)

def fork_and_return(folder):
    started(folder)
    while not (Path(folder) / "told").exists():
        pass

@flow
async def forks(goal, folder, name, timeout_s):
    await goal.options(effect="idempotent", timeout_s=timeout_s).step(globals()[name], folder)
"""


def run_flow(folder: Path, name: str, timeout_s: float | None = None) -> program.Program:
    (folder / "flows.py").write_text(FLOWS)
    arguments = json.dumps([str(folder), name, timeout_s])
    return program.start(folder / "home", folder, ["run", "--flow", "flows:forks", "--args", arguments])


def exit_code_of(started: program.Program) -> int | None:
    """Wait until a command has ended, although a fork of it may still have its standard error open."""
    started.wait_for_end()
    code = started.process.exitcode
    started.kill()
    return code


async def test_what_a_killed_command_has_forked_by_multiprocessing_is_ended_by_the_next(folder: Path) -> None:
    home = folder / "home"
    started = run_flow(folder, "fork")
    until(lambda: bool(told(folder)))
    started.kill()
    (orphan,) = told(folder)
    assert is_running(orphan)
    await when_free(home, str(home / "perdure.db"), cancel)
    assert not is_running(orphan)


@pytest.mark.parametrize("name", ["fork", "fork_async", "fork_twice"])
def test_what_a_step_that_timed_out_has_forked_is_ended_and_the_command_exits(folder: Path, name: str) -> None:
    code = exit_code_of(run_flow(folder, name, timeout_s=1.0))
    assert code == 1
    assert len(told(folder)) == 1
    assert not is_running(*told(folder))
    assert notes(folder / "home") == []


@pytest.mark.parametrize("name", ["fork", "fork_async"])
async def test_what_a_cancelled_step_has_forked_is_ended_and_the_command_exits(folder: Path, name: str) -> None:
    home = folder / "home"
    started = run_flow(folder, name)
    until(lambda: bool(told(folder)))
    async with open_goals(home, str(home / "perdure.db")) as goals:
        await goals.cancel((await goals.list())[0].id)
    assert exit_code_of(started) is not None
    assert not is_running(*told(folder))


def test_a_fork_that_outlives_its_step_is_left_alone_and_a_signal_ends_the_command_beside_it(folder: Path) -> None:
    started = run_flow(folder, "fork_and_return")
    started.wait_for("done")
    (fork,) = told(folder)
    until(lambda: is_interrupted(started))
    started.kill()
    assert is_running(fork)


def is_interrupted(started: program.Program) -> bool:
    """Send SIGTERM, and return whether the command has ended."""
    started.process.terminate()
    return started.process.exitcode is not None


async def test_what_a_killed_server_has_forked_is_ended_by_the_next(folder: Path, database_url: str) -> None:
    home = folder / "home"
    home.mkdir()
    name = f"{forks.fn.__module__}:{forks.name}"
    (home / "config.toml").write_text(f'database_url = "{database_url}"\nflows = "{name}"\n')
    with served(home) as (_, url):
        async with connected(home, url) as client:
            goal = await client.goals.create(flow=name, args=[str(folder), "ignores TERM"])
            until(lambda: bool(told(folder)))
    (orphan,) = told(folder)
    assert is_running(orphan)
    with served(home) as (_, url):
        async with connected(home, url) as client, asyncio.timeout(PATIENCE_S):
            while (await client.goals.get(goal["id"]))["status"] != "waiting":  # noqa: ASYNC110 (another process does it)
                await asyncio.sleep(0.05)
    assert not is_running(orphan)


@flow
async def cancels_its_fork(goal: Goal, folder: str, manner: str) -> str:
    """Cancel a step that has forked, and go on."""
    task = asyncio.create_task(goal.step(fork_and_wait, folder, manner))
    while not (Path(folder) / "told").exists():  # noqa: ASYNC110 (another process writes it)
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return await goal.options(effect="idempotent").step(str, "went on")


@pytest.mark.parametrize("manner", ["waits", "forks again", "ignores TERM"])
async def test_the_forks_of_a_step_that_the_flow_cancels_are_ended(tmp_path: Path, manner: str) -> None:
    async with Perdure.open(tmp_path / "home") as p:
        result = await p.goals.run(cancels_its_fork, str(tmp_path), manner)
        call = (await p.goals.state(result.id)).calls[STEP]
    assert result.value == "went on"
    assert call.outcome is not None
    assert (call.outcome.error.code if call.outcome.error else None, call.outcome.happened) == ("cancelled", "unknown")
    told = [int(line) for line in (tmp_path / "told").read_text().split()]
    assert told
    assert not [pid for pid in told if is_running(pid)]
