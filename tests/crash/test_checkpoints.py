"""Several processes that write one SQLite file while its log is moved back all the time: nothing is lost or damaged."""

import sqlite3
from contextlib import closing
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from perdure.filelock.lock import FileLock
from perdure.kernel.history.replay import replay
from perdure.store.sqlite import checkpoint
from perdure.store.sqlite.files import lock_path
from tests import children
from tests.crash.goals import open_goals, rest_of, run_plan, telling
from tests.crash.size import torture_size

WRITERS = 3
STEPS = 20
PLAN = "goal: many\nsteps:\n" + "".join(
    f"  - {{id: s{i}, tool: read_file, with: {{path: filler}}, effect: pure}}\n" for i in range(STEPS)
)


async def write_goals(home: Path, count: int, pipe: Connection) -> None:
    """Run goals with large outputs, and checkpoint after every few pages."""
    checkpoint.PAGES = 1
    async with open_goals(home, str(home / "perdure.db")) as goals:
        for _ in range(count):
            await run_plan(goals, PLAN, home, telling(pipe))


async def checkpoint_until(path: Path, is_over: Event) -> None:
    """Move the whole log back again and again, as the product does: under the lock."""
    lock = FileLock(lock_path(path))
    modes = ("RESTART", "TRUNCATE", "PASSIVE", "FULL")
    rounds = 0
    while not is_over.is_set():
        with lock, closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA wal_checkpoint({modes[rounds % 4]})")
            rounds += 1
    assert rounds > WRITERS


@pytest.mark.torture
async def test_checkpoints_all_the_time_neither_lose_nor_damage_what_several_processes_write(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "filler").write_text("x" * 3000)
    path = home / "perdure.db"
    async with open_goals(home, str(path)):
        pass
    ours, theirs = children.context().Pipe(duplex=False)
    is_over = children.context().Event()
    disturber = children.start(checkpoint_until, path, is_over)
    writers = [children.start(write_goals, home, torture_size(small=3), theirs) for _ in range(WRITERS)]
    theirs.close()
    told = set(rest_of(ours))
    assert [children.end_of(writer) for writer in writers] == [0] * WRITERS
    is_over.set()
    assert children.end_of(disturber) == 0
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    found = set()
    async with open_goals(home, str(path)) as goals:
        for goal in await goals.list(limit=1000):
            events = await goals.history(goal.summary.goal_id)
            assert replay(events, goal.summary).state.status == "done"
            found |= {(event.goal_id, event.seq, event.hash) for event in events}
    assert found == told
