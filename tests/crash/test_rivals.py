"""Several processes that want the same goal, or the same file: one runs it, and nobody writes over another."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psycopg

from perdure import Conflict, PerdureError
from perdure.filelock.lock import FileLock
from perdure.kernel.history.replay import replay
from perdure.store.sqlite.files import lock_path
from tests import children
from tests.crash.goals import carry_on, counted, is_running, open_goals, rest_of, run_plan, telling

MANY = 16
LEASE_S = 3.0
PLAN = """
goal: for one
steps:
  - {id: first, shell: true, exec: "echo . >> first", effect: idempotent}
  - {id: second, shell: true, exec: "echo . >> second", needs: [first]}
  - {id: third, shell: true, exec: "echo . >> third", needs: [second]}
"""
LONG = """
goal: long
steps:
  - id: long
    shell: true
    exec: "test -e go && exit; sleep 600 & echo $$ $! > told; wait"
    effect: idempotent
  - {id: last, shell: true, exec: "echo . >> last", needs: [long]}
"""


async def resume_at_once(home: Path, url: str, goal_id: str, barrier: Barrier, pipe: Connection) -> None:
    async with open_goals(home, url) as goals:
        barrier.wait()
        try:
            pipe.send((await goals.resume_run(goal_id)).state.status)
        except Conflict:
            pipe.send("conflict")


async def test_of_sixteen_processes_that_resume_one_goal_at_once_one_runs_it(database_url: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    ours, theirs = children.context().Pipe(duplex=False)
    children.run_until("kernel.append.after", carry_on, home, database_url, PLAN, theirs)
    barrier = children.context().Barrier(MANY)
    async with open_goals(home, database_url) as goals:
        (goal,) = await goals.list()
        goal_id = goal.summary.goal_id
        rivals = [children.start(resume_at_once, home, database_url, goal_id, barrier, theirs) for _ in range(MANY)]
        theirs.close()
        assert [children.end_of(rival) for rival in rivals] == [0] * MANY
        results = sorted(map(str, rest_of(ours)))
        assert len(results) == MANY
        assert set(results) <= {"done", "conflict"}
        assert "done" in results
        assert [counted(home, step) for step in ("first", "second", "third")] == [1, 1, 1]
        assert (await goals.replay(goal_id)).state.status == "done"


async def work_and_tell(home: Path, url: str, lease_s: float, folder: Path, pipe: Connection) -> None:
    """Start the long plan; tell of every event, and at last how it ended."""
    async with open_goals(home, url, lease_s=lease_s) as goals:
        try:
            ran = await run_plan(goals, LONG, folder, telling(pipe))
            pipe.send(ran.outcome)
        except PerdureError as error:
            pipe.send(error.code)


async def take_over(home: Path, url: str, lease_s: float) -> None:
    """Resume the one goal as soon as its lease lets us."""
    async with open_goals(home, url, lease_s=lease_s) as goals:
        (goal,) = await goals.list()
        while True:
            try:
                assert (await goals.resume_run(goal.summary.goal_id)).state.status == "done"
            except Conflict:
                await asyncio.sleep(0.05)
            else:
                return


def until(is_so: Callable[[], bool]) -> None:
    """Wait for what another process does, and has no other way to tell."""
    for _ in range(3000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")


def told_by_the_step(folder: Path) -> list[int]:
    """Wait until the long step runs, and return the processes that it consists of."""
    path = folder / "told"
    until(lambda: path.exists() and len(path.read_text().split()) == 2)
    return [int(pid) for pid in path.read_text().split()]


def stop_outside_a_write(pid: int, url: str) -> None:
    """Stop a process at a moment when it does not hold the lock of the database."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        if url.startswith("postgresql"):
            return
        lock = FileLock(lock_path(Path(url)), wait_s=0.2)
        try:
            with lock:
                return
        except PerdureError:
            os.kill(pid, signal.SIGCONT)
        finally:
            lock.close()


async def test_a_worker_that_was_stopped_past_its_lease_can_record_nothing_and_leaves_nothing_running(
    database_url: str, tmp_path: Path
) -> None:
    """The other one has a home of its own, so it cannot reach the processes of the first: that one must end them."""
    folder, home, other = (tmp_path / name for name in ("work", "home", "other"))
    for path in (folder, home, other):
        path.mkdir()
    ours, theirs = children.context().Pipe(duplex=False)
    stopped = children.start(work_and_tell, home, database_url, LEASE_S, folder, theirs)
    theirs.close()
    pids = told_by_the_step(folder)
    assert stopped.pid is not None
    stop_outside_a_write(stopped.pid, database_url)
    (folder / "go").touch()
    children.run(take_over, other, database_url, LEASE_S)
    assert all(is_running(pid) for pid in pids)
    os.kill(stopped.pid, signal.SIGCONT)
    *told, end = rest_of(ours)
    assert end in ("conflict", "unavailable")
    assert children.end_of(stopped) == 0
    assert not any(is_running(pid) for pid in pids)
    async with open_goals(home, database_url) as goals:
        (goal,) = await goals.list()
        events = await goals.history(goal.summary.goal_id)
    assert replay(events, goal.summary).state.status == "done"
    assert [(event.goal_id, event.seq, event.hash) for event in events[: len(told)]] == told
    assert counted(folder, "last") == 1


@contextmanager
def locked_away(url: str) -> Iterator[None]:
    """Let the database answer nobody who wants to say that he lives."""
    if url.startswith("postgresql"):
        with psycopg.connect(url) as connection:
            connection.execute("LOCK TABLE leases, goals IN ACCESS EXCLUSIVE MODE")
            yield
        return
    lock = FileLock(lock_path(Path(url)))
    with lock:
        yield
    lock.close()


async def test_a_worker_that_cannot_renew_its_lease_ends_all_that_it_runs_before_the_lease_is_over(
    database_url: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    ours, theirs = children.context().Pipe(duplex=False)
    worker = children.start(work_and_tell, home, database_url, LEASE_S, home, theirs)
    theirs.close()
    pids = told_by_the_step(home)
    with locked_away(database_url):
        begun_s = time.monotonic()
        until(lambda: not any(is_running(pid) for pid in pids))
        assert time.monotonic() - begun_s < LEASE_S
    *_, end = rest_of(ours)
    assert end == "unavailable"
    assert children.end_of(worker) == 0
    (home / "go").touch()
    children.run(take_over, home, database_url, LEASE_S)
    assert counted(home, "last") == 1
