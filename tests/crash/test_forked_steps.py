"""A step that forks its whole process: when the worker is killed, what it forked is ended before the goal goes on."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, flow
from perdure.app.goals import Goals
from perdure.app.new_goal import new_goal
from perdure.minds.flow import Goal
from perdure.tools.orphans import ForkMarker, end_orphans
from tests import children
from tests.crash import program
from tests.crash.goals import is_running, open_goals
from tests.crash.size import torture_size
from tests.crash.test_rivals import until
from tests.crash.test_server import connected, served

LEASE_S = 1.0
PATIENCE_S = 60
DEAF = [signal.SIGTERM, signal.SIGINT]


def fork_and_wait(folder: str, is_deaf: bool) -> None:
    """Fork a process that lives on for ever, as `multiprocessing` does, and wait for it."""
    pid = os.fork()
    if pid == 0:
        for kind in DEAF if is_deaf else []:
            signal.pthread_sigmask(signal.SIG_BLOCK, [kind])
        with (Path(folder) / "told").open("a") as told:
            told.write(f"{os.getpid()}\n")
        while True:
            signal.pause()
    os.waitpid(pid, 0)


@flow
async def forks(goal: Goal, folder: str, is_deaf: bool) -> None:
    await goal.step(fork_and_wait, folder, is_deaf, retry=3)


async def work(home: Path, url: str, is_deaf: bool) -> None:
    async with open_goals(home, url, lease_s=LEASE_S) as goals:
        await goals.start(new_goal(forks, (str(home), is_deaf), {}))


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


def killed_beside_its_fork(home: Path, url: str, *, is_deaf: bool) -> int:
    """Kill a worker in the middle of a step that has forked, and return the orphan."""
    count = len(told(home))
    worker = children.start(work, home, url, is_deaf)
    until(lambda: len(told(home)) > count)
    worker.kill()
    assert children.end_of(worker) == -signal.SIGKILL
    orphan = told(home)[-1]
    assert is_running(orphan)
    return orphan


async def resume(goals: Goals, goal_id: str) -> Any:
    return (await goals.go_on(goal_id)).state


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
@pytest.mark.parametrize("is_deaf", [False, True], ids=["meek", "ignoring TERM"])
async def test_what_a_killed_worker_has_forked_is_ended_before_its_step_is_decided(
    database_url: str, folder: Path, act: Callable[[Goals, str], Awaitable[Any]], is_deaf: bool
) -> None:
    orphan = killed_beside_its_fork(folder, database_url, is_deaf=is_deaf)
    state = await when_free(folder, database_url, act)
    assert state.calls["/fork_and_wait#0.1"].unknown is not None
    assert not is_running(orphan)
    assert list((folder / "run").glob("*.forks")) == []


@pytest.mark.torture
async def test_however_often_workers_are_killed_beside_a_fork_none_is_left(database_url: str, folder: Path) -> None:
    for number in range(torture_size(small=2)):
        killed_beside_its_fork(folder, database_url, is_deaf=number % 2 == 0)
        await when_free(folder, database_url, cancel)
        assert not any(is_running(pid) for pid in told(folder))


FLOWS = """
import multiprocessing, signal
from pathlib import Path
from perdure import flow

def sleep_for_ever(folder):
    (Path(folder) / "told").write_text(f"{multiprocessing.current_process().pid}\\n")
    while True:
        signal.pause()

def fork(folder):
    child = multiprocessing.get_context("fork").Process(target=sleep_for_ever, args=(folder,))
    child.start()
    child.join()

@flow
async def forks(goal, folder):
    await goal.step(fork, folder)
"""


async def test_what_a_killed_command_has_forked_by_multiprocessing_is_ended_by_the_next(folder: Path) -> None:
    home = folder / "home"
    (folder / "flows.py").write_text(FLOWS)
    started = program.start(home, folder, ["run", "--flow", "flows:forks", "--args", f'["{folder}"]'])
    until(lambda: bool(told(folder)))
    started.kill()
    (orphan,) = told(folder)
    assert is_running(orphan)
    await when_free(home, str(home / "perdure.db"), cancel)
    assert not is_running(orphan)


async def test_what_a_killed_server_has_forked_is_ended_by_the_next(folder: Path, database_url: str) -> None:
    home = folder / "home"
    home.mkdir()
    name = f"{forks.fn.__module__}:{forks.name}"
    (home / "config.toml").write_text(f'database_url = "{database_url}"\nflows = "{name}"\n')
    with served(home) as (_, url):
        async with connected(home, url) as client:
            goal = await client.goals.create(flow=name, args=[str(folder), True])
            until(lambda: bool(told(folder)))
    (orphan,) = told(folder)
    assert is_running(orphan)
    with served(home) as (_, url):
        async with connected(home, url) as client, asyncio.timeout(PATIENCE_S):
            while (await client.goals.get(goal["id"]))["status"] != "waiting":  # noqa: ASYNC110 (another process does it)
                await asyncio.sleep(0.05)
    assert not is_running(orphan)


async def be_a_worker(home: Path) -> None:
    """Become a worker, fork, and let the fork become a worker too; then die."""
    (home / "run").mkdir(exist_ok=True)
    ForkMarker(home / "run", f"{os.getpid()}-{'0' * 16}")
    pid = os.fork()
    if pid == 0:
        ForkMarker(home / "run", f"{os.getpid()}-{'1' * 16}")
        with (home / "told").open("a") as file:
            file.write(f"{os.getppid()}\n{os.getpid()}\n")
        signal.pause()
    until(lambda: len(told(home)) == 2)
    os._exit(0)


async def test_a_fork_that_has_become_a_worker_itself_is_nobodys_orphan(folder: Path) -> None:
    children.run(be_a_worker, folder)
    dead, living = told(folder)
    await end_orphans(folder / "run", f"{dead}-{'0' * 16}")
    assert is_running(living)


async def hold_a_marker(home: Path) -> None:
    ForkMarker(home / "run", f"{os.getpid()}-{'0' * 16}")
    (home / "told").write_text(f"{os.getpid()}\n")
    await asyncio.Event().wait()


async def test_a_worker_that_holds_its_own_marker_lives_and_is_left_alone(folder: Path) -> None:
    (folder / "run").mkdir()
    worker = children.start(hold_a_marker, folder)
    until(lambda: bool(told(folder)))
    (pid,) = told(folder)
    await end_orphans(folder / "run", f"{pid}-{'0' * 16}")
    assert is_running(pid)
    worker.kill()
    children.end_of(worker)
    await end_orphans(folder / "run", f"{pid}-{'0' * 16}")
    assert list((folder / "run").iterdir()) == []


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "1-zz", "a/b"])
async def test_a_name_that_no_worker_of_ours_has_names_no_orphans(folder: Path, name: str) -> None:
    await end_orphans(folder, name)
