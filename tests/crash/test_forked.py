"""Steps that fork: an orphan of a killed process holds nothing, and what its parent had opened is not damaged by it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, DatabaseClient
from perdure.app.home.system import WorkerIdentity, is_dead
from perdure.bots.writing import hold_bots_lock
from perdure.memory.log.log import Log
from perdure.memory.paths import MemoryFiles
from tests import children
from tests.crash.goals import is_running
from tests.crash.size import torture_size
from tests.filelock.processes import in_a_fork
from tests.rows import new_project, project_names

WORKER = "worker"
"""The file in which the test's worker says who it is."""


def leave_an_orphan(pipe: Connection) -> None:
    """Fork a child that lives on, and wait to be killed. The child says when it is there."""
    if os.fork() == 0:
        pipe.send(os.getpid())
        signal.pause()
        os._exit(0)
    signal.pause()


async def hold_the_database(home: Path, pipe: Connection) -> None:
    async with await DatabaseClient.create(home / "perdure.db") as db:
        await db.transaction(lambda _tx: leave_an_orphan(pipe))


async def be_a_worker(home: Path, pipe: Connection) -> None:
    (home / WORKER).write_text(WorkerIdentity(home).worker.id)
    leave_an_orphan(pipe)


async def hold_the_memory(home: Path, pipe: Connection) -> None:
    def choose(_fd: int, _size: int) -> list[bytes]:
        leave_an_orphan(pipe)
        return []

    Log(MemoryFiles(home / "memory.jsonl")).append_chosen(choose)


async def hold_the_bots(home: Path, pipe: Connection) -> None:
    async with hold_bots_lock(home / "bots"):
        leave_an_orphan(pipe)


async def write_to_the_database(home: Path) -> None:
    async with await DatabaseClient.create(home / "perdure.db") as db:
        await db.transaction(new_project("after"))
        assert await db.read(project_names) == ["after"]
        assert await db.verify() == []


async def see_that_the_worker_is_dead(home: Path) -> None:
    assert is_dead(home, (home / WORKER).read_text())


async def write_to_the_memory(home: Path) -> None:
    log = Log(MemoryFiles(home / "memory.jsonl"), wait_s=0)
    log.append([b"{}\n"])
    log.close()


async def write_to_the_bots(home: Path) -> None:
    async with hold_bots_lock(home / "bots", wait_s=0):
        pass


@contextmanager
def orphan_of_a_killed(hold: Callable[[Path, Connection], Any], home: Path) -> Iterator[None]:
    """Kill a process that holds something, and let the child that it has forked live for the time of the block."""
    ours, theirs = children.context().Pipe(duplex=False)
    holder = children.start(hold, home, theirs)
    theirs.close()
    orphan = ours.recv()
    try:
        holder.kill()
        assert children.end_of(holder) == -signal.SIGKILL
        yield
        assert is_running(orphan)
    finally:
        os.kill(orphan, signal.SIGKILL)


@pytest.mark.torture
@pytest.mark.parametrize(
    ("hold", "use"),
    [
        (hold_the_database, write_to_the_database),
        (be_a_worker, see_that_the_worker_is_dead),
        (hold_the_memory, write_to_the_memory),
        (hold_the_bots, write_to_the_bots),
    ],
)
async def test_what_a_killed_process_held_is_free_at_once_although_its_orphan_lives(
    tmp_path: Path, hold: Callable[[Path, Connection], Any], use: Callable[[Path], Awaitable[None]]
) -> None:
    for number in range(torture_size(small=1)):
        home = tmp_path / str(number)
        home.mkdir()
        with orphan_of_a_killed(hold, home):
            async with asyncio.timeout(5):
                await use(home)


def first_error(coroutine: Any) -> BaseException:
    """Run a coroutine to where it would wait; it must not come so far."""
    try:
        coroutine.send(None)
    except BaseException as error:  # noqa: BLE001 (it is the answer)
        return error
    raise AssertionError("it waits for something")


async def test_a_database_that_was_opened_before_a_fork_refuses_all_in_the_child(sqlite_path: Path) -> None:
    async with await DatabaseClient.create(sqlite_path) as db:
        await db.transaction(new_project("a"))

        def use() -> None:
            for asked in (db.transaction(new_project("b")), db.read(project_names)):
                error = first_error(asked)
                assert isinstance(error, RuntimeError), error
                assert "before a fork" in str(error)

        assert in_a_fork(use) == 0
        assert await db.read(project_names) == ["a"]


async def test_a_file_that_was_open_at_a_fork_is_not_opened_by_the_child(sqlite_path: Path) -> None:
    """SQLite believes, in the child, that it holds the locks that its parent holds."""

    async def open_again() -> None:
        await DatabaseClient.create(sqlite_path)

    def refused() -> None:
        with pytest.raises(Conflict, match="was open when this process was forked"):
            asyncio.run(open_again())

    db = await DatabaseClient.create(sqlite_path)
    assert in_a_fork(refused) == 0
    await db.close()
    assert in_a_fork(lambda: asyncio.run(open_again())) == 0


ENDS_LATER = """
import asyncio, os, signal, sys
from pathlib import Path
from perdure import DatabaseClient
from tests.rows import new_project

async def main():
    db = await DatabaseClient.create(Path(sys.argv[1]))
    await db.transaction(new_project("a"))
    if os.fork() == 0:
        sys.stdin.read()
        sys.exit()
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def leave_an_orphan_that_ends(path: Path, wal: Path) -> bytes:
    """Return what the log is when the parent is dead; the orphan has ended afterwards."""
    program = subprocess.Popen(
        [sys.executable, "-c", ENDS_LATER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert program.wait(60) == -signal.SIGKILL
    before = wal.read_bytes()
    program.communicate(timeout=60)  # its input ends, so it ends, so its output does
    return before


async def test_an_orphan_that_ends_does_not_touch_the_database_of_its_parent(sqlite_path: Path) -> None:
    """To close a connection is to checkpoint, and nothing tells SQLite that another process holds the lock file."""
    wal = sqlite_path.with_name(f"{sqlite_path.name}-wal")
    before = leave_an_orphan_that_ends(sqlite_path, wal)
    assert before
    assert wal.read_bytes() == before
    async with await DatabaseClient.create(sqlite_path) as db:
        assert await db.read(project_names) == ["a"]
