"""The SQLite adapter: one writer, the lock, checkpoints, a file that moves, a disk that fails."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from perdure import Damaged, DatabaseClient, NotFound, Unavailable, failpoints
from perdure.filelock.lock import FileLock
from perdure.store.migrations import CHAIN
from perdure.store.raw import RawTransaction
from perdure.store.sqlite.file_database import SqliteFileDatabase
from perdure.store.transaction import Transaction
from tests import children
from tests.contracts.histories import HELLO, Stored, begin
from tests.rows import new_project, project_names


async def test_the_settings_that_durability_depends_on(sqlite_path: Path) -> None:
    async with await DatabaseClient.create(sqlite_path) as db:
        facts = (await db.health()).facts
        pragmas = await db.transaction(
            lambda tx: {
                name: tx.scalar(f"PRAGMA {name}")
                for name in ("wal_autocheckpoint", "busy_timeout", "mmap_size", "foreign_keys", "synchronous")
            }
        )
    assert (facts["journal_mode"], facts["synchronous"], facts["foreign_keys"]) == ("wal", "full", True)
    assert pragmas == {
        "wal_autocheckpoint": 0,
        "busy_timeout": 10_000,
        "mmap_size": 0,
        "foreign_keys": 1,
        "synchronous": 2,
    }


async def test_a_read_sees_one_state_while_a_write_continues_beside_it(sqlite_path: Path) -> None:
    async with await DatabaseClient.create(sqlite_path) as db:
        begun, written = threading.Event(), threading.Event()

        def reads_twice(tx: Transaction) -> tuple[list[str], list[str]]:
            first = project_names(tx)
            begun.set()
            written.wait(10)
            return first, project_names(tx)

        reading = asyncio.ensure_future(db.read(reads_twice))
        await asyncio.to_thread(begun.wait, 10)
        await db.transaction(new_project("new"))
        written.set()
        assert await reading == ([], [])
        assert await db.read(project_names) == ["new"]


async def test_every_write_transaction_holds_the_lock_file(sqlite_path: Path) -> None:
    async with await DatabaseClient.create(sqlite_path) as db:

        def is_locked(_tx: Transaction) -> bool:
            with pytest.raises(Unavailable):
                FileLock(Path(f"{sqlite_path}.lock"), wait_s=0).acquire()
            return True

        assert await db.transaction(is_locked)


async def test_a_lock_that_is_kept_too_long_names_its_holder(sqlite_path: Path) -> None:
    async with await DatabaseClient.create(sqlite_path):
        pass
    lock = FileLock(Path(f"{sqlite_path}.lock"))
    with lock, pytest.raises(Unavailable, match=f"Process {os.getpid()} holds"):
        FileLock(Path(f"{sqlite_path}.lock"), wait_s=0.05).acquire()
    lock.close()


async def test_a_lock_file_that_was_removed_is_made_again(sqlite_path: Path) -> None:
    async with await DatabaseClient.create(sqlite_path) as db:
        Path(f"{sqlite_path}.lock").unlink()
        await db.transaction(new_project("a"))
        assert Path(f"{sqlite_path}.lock").exists()


async def test_the_log_is_moved_back_after_about_a_thousand_pages(sqlite_path: Path) -> None:
    async with await DatabaseClient.create(sqlite_path) as db:
        for i in range(40):
            await db.transaction(large_projects(i))
        wal = Path(f"{sqlite_path}-wal")
        assert wal.stat().st_size < 3 * 1000 * 4096, "40 writes of 100 pages each"
        assert sqlite_path.stat().st_size > 10 * 1000 * 1000


def large_projects(i: int) -> Callable[[Transaction], None]:
    def run(tx: Transaction) -> None:
        for j in range(50):
            new_project(f"{i}-{j}-" + "x" * 8000)(tx)

    return run


async def test_small_commits_are_moved_back_too_once_the_log_is_written_over(sqlite_path: Path) -> None:
    async with await DatabaseClient.create(sqlite_path) as db:
        for i in range(1500):
            await db.transaction(new_project(str(i)))
        with closing(sqlite3.connect(sqlite_path)) as plain:
            _, pages, moved = plain.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    assert pages < 2000
    assert moved <= pages


async def test_a_reader_in_the_way_of_a_checkpoint_is_no_error(sqlite_path: Path) -> None:
    async with await DatabaseClient.create(sqlite_path) as db:
        await db.transaction(new_project("a"))
        with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT * FROM projects").fetchall()
            for i in range(15):
                await db.transaction(large_projects(i))
            other.execute("COMMIT")
    async with await DatabaseClient.create(sqlite_path) as db:
        assert len(await db.read(project_names)) == 1 + 15 * 50


async def test_a_file_that_was_replaced_is_noticed_by_writers_and_readers(sqlite_path: Path, tmp_path: Path) -> None:
    async with await DatabaseClient.create(sqlite_path) as db:
        await db.transaction(new_project("old"))
        await db.backup(tmp_path / "copy.db")
        await db.transaction(new_project("not in the copy"))
        assert await db.read(project_names) == ["not in the copy", "old"]
        for suffix in ("", "-wal", "-shm"):
            Path(f"{sqlite_path}{suffix}").rename(f"{sqlite_path}.aside{suffix}")
        (tmp_path / "copy.db").rename(sqlite_path)
        assert await db.read(project_names) == ["old"]
        await db.transaction(new_project("new"))
        assert await db.read(project_names) == ["new", "old"]


async def test_a_file_that_was_removed_is_reported_and_nothing_is_written(sqlite_path: Path) -> None:
    async with await DatabaseClient.create(sqlite_path) as db:
        await db.transaction(new_project("a"))
        sqlite_path.rename(f"{sqlite_path}.moved")
        with pytest.raises(Damaged, match="moved or removed"):
            await db.transaction(new_project("b"))
        assert not sqlite_path.exists()
        Path(f"{sqlite_path}.moved").rename(sqlite_path)
        assert await db.read(project_names) == ["a"]


def failing_disk(calls: list[str]) -> Callable[[], None]:
    def fail() -> None:
        calls.append("failed")
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
        raise error

    return fail


async def test_after_a_disk_error_the_connection_is_opened_again_and_nothing_is_retried(sqlite_path: Path) -> None:
    calls: list[str] = []
    database = await SqliteFileDatabase.open(sqlite_path, migrate=True, debug=False)
    before = database._writer._connection
    with failpoints.armed("store.commit.before", failing_disk(calls)), pytest.raises(Unavailable, match="is unknown"):
        await database.write(new_project("a"))
    assert len(calls) == 1
    assert database._writer._connection is None
    await database.write(new_project("b"))
    assert database._writer._connection is not before
    assert await database.read(project_names) == ["b"]
    await database.close()


async def test_a_disk_error_under_a_group_is_reported_to_all_and_nothing_is_retried(sqlite_path: Path) -> None:
    calls: list[str] = []
    async with await DatabaseClient.create(sqlite_path) as db:
        stored = Stored(db.state_store(), db.leases(boottime_s=lambda: 0.0, is_dead=lambda _worker_id: False), set())
        goals = [await begin(stored, name) for name in ("a", "b", "c")]
        with failpoints.armed("store.append.before", failing_disk(calls)):
            done = await asyncio.gather(*[goal.append(HELLO) for goal in goals], return_exceptions=True)
        assert [type(result) for result in done] == [Unavailable] * 3
        assert len({id(result) for result in done}) == 3
        assert 1 <= len(calls) <= 3
        for goal in goals:
            await goal.append(HELLO)
            assert await db.state_store().load(goal.goal_id) == goal.events


async def test_a_renewal_is_not_flushed_and_everything_else_is(sqlite_path: Path) -> None:
    def level(raw: RawTransaction) -> object:
        return raw.first("PRAGMA synchronous")

    database = await SqliteFileDatabase.open(sqlite_path, migrate=True, debug=False)
    assert await database.write_raw(level, flush=False) == (1,)
    assert await database.write_raw(level) == (2,)
    await database.close()


async def test_a_file_that_was_replaced_is_noticed_by_one_who_appends(sqlite_path: Path, tmp_path: Path) -> None:
    async with await DatabaseClient.create(sqlite_path) as db:
        stored = Stored(db.state_store(), db.leases(boottime_s=lambda: 0.0, is_dead=lambda _worker_id: False), set())
        await begin(stored, "first")
        await db.backup(tmp_path / "copy.db")
        goal = await begin(stored, "not in the copy")
        for suffix in ("", "-wal", "-shm"):
            Path(f"{sqlite_path}{suffix}").rename(f"{sqlite_path}.aside{suffix}")
        (tmp_path / "copy.db").rename(sqlite_path)
        with pytest.raises(NotFound):
            await goal.append(HELLO)
        assert [summary.goal_id for summary in await db.state_store().list_goals()] == ["first"]


async def test_two_clients_of_one_process_share_a_file(sqlite_path: Path) -> None:
    async with await DatabaseClient.create(sqlite_path) as one, await DatabaseClient.create(sqlite_path) as two:
        await asyncio.gather(
            *[db.transaction(new_project(f"{n}-{i}")) for i in range(50) for n, db in [(1, one), (2, two)]]
        )
        assert len(await one.read(project_names)) == len(await two.read(project_names)) == 100
        assert await one.verify() == []


async def test_opening_a_current_database_imports_neither_alembic_nor_sqlalchemy(sqlite_path: Path) -> None:
    await (await DatabaseClient.create(sqlite_path)).close()
    program = (
        "import asyncio, sys\n"
        "from perdure import DatabaseClient\n"
        "async def main():\n"
        f"    db = await DatabaseClient.create({str(sqlite_path)!r})\n"
        "    print((await db.health()).version)\n"
        "    assert await db.state_store().list_goals() == []\n"
        "    await db.close()\n"
        "asyncio.run(main())\n"
        "print([name for name in ('alembic', 'sqlalchemy', 'psycopg', 'typer') if name in sys.modules])\n"
    )
    assert children.python(program) == f"{CHAIN.head}\n[]\n"
