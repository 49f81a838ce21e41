"""Kill -9 around every step of a backup and a restore: the old state or the new one, and nothing is ever lost."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perdure import DatabaseClient, Perdure, failpoints
from perdure.app.home.backup import back_up, restore_backup
from perdure.store.backup.archive import unpack_archive
from perdure.store.backup.places import DATABASE
from tests import children
from tests.postgres import PostgresServer
from tests.rows import new_project, project_names
from tests.store.test_restore import content, fill, settings_of

RESTORE_POINTS = sorted(point for point in failpoints.POINTS if point.startswith("store.restore"))


async def back_up_home(home: Path, target: Path) -> None:
    await back_up(settings_of(home), target)


async def restore_home(home: Path, archive: Path, url: str | None = None) -> None:
    await restore_backup(settings_of(home, url), archive, replace=True)


@pytest.mark.parametrize("point", ["store.backup.before", "store.backup.after", "store.backup.file"])
async def test_a_kill_while_a_home_is_copied_leaves_no_archive(tmp_path: Path, point: str) -> None:
    await fill(settings_of(tmp_path / "home"), "a")
    target = tmp_path / "backup.tar.gz"
    children.run_until(point, back_up_home, tmp_path / "home", target)
    assert not target.exists()
    await back_up(settings_of(tmp_path / "home"), target)
    unpack_archive(target, {DATABASE: tmp_path / "db", "bots": tmp_path / "bots", "memory": tmp_path / "memory"})


@pytest.mark.parametrize(("point", "is_there"), [("store.backup.before", False), ("store.backup.after", True)])
async def test_a_kill_around_the_publishing_of_a_copy_leaves_none_or_a_whole_one(
    sqlite_path: Path, tmp_path: Path, point: str, is_there: bool
) -> None:
    children.run_until(point, copy_database, sqlite_path, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").exists() is is_there
    if is_there:
        async with await DatabaseClient.create(tmp_path / "copy.db") as db:
            assert await db.read(project_names) == ["a"]


async def copy_database(path: Path, target: Path) -> None:
    async with await DatabaseClient.create(path) as db:
        await db.transaction(new_project("a"))
        await db.backup(target)


@pytest.mark.parametrize("point", RESTORE_POINTS)
async def test_a_kill_in_a_restore_leaves_the_old_state_or_the_new_one(tmp_path: Path, point: str) -> None:
    await fill(settings_of(tmp_path / "source"), "new")
    archive = tmp_path / "backup.tar.gz"
    await back_up(settings_of(tmp_path / "source"), archive)
    settings = settings_of(tmp_path / "home")
    await fill(settings, "old")
    children.run_until(point, restore_home, settings.home, archive)
    expected = "old" if point == "store.restore.plan.before" else "new"
    assert await content(settings) == ([expected], [expected], expected)
    if expected == "new":
        (aside,) = settings.home.glob("perdure.db.replaced-*")
        with closing(sqlite3.connect(aside)) as plain:
            assert plain.execute("SELECT name FROM projects").fetchall() == [("old",)]
    await restore_backup(settings, archive, replace=True)
    assert await content(settings) == (["new"], ["new"], "new")
    assert not list(settings.home.glob(".*"))


@pytest.mark.parametrize("point", ["store.restore.swap.before", "store.restore.swap.between"])
async def test_a_kill_while_an_interrupted_restore_is_finished_changes_nothing(tmp_path: Path, point: str) -> None:
    await fill(settings_of(tmp_path / "source"), "new")
    await back_up(settings_of(tmp_path / "source"), tmp_path / "backup.tar.gz")
    settings = settings_of(tmp_path / "home")
    await fill(settings, "old")
    children.run_until("store.restore.plan.after", restore_home, settings.home, tmp_path / "backup.tar.gz")
    children.run_until(point, open_home, settings.home)
    assert await content(settings) == (["new"], ["new"], "new")


async def open_home(home: Path) -> None:
    async with Perdure.open(home):
        pass


async def test_many_that_open_a_home_with_an_interrupted_restore_finish_it_once(tmp_path: Path) -> None:
    await fill(settings_of(tmp_path / "source"), "new")
    await back_up(settings_of(tmp_path / "source"), tmp_path / "backup.tar.gz")
    settings = settings_of(tmp_path / "home")
    await fill(settings, "old")
    children.run_until("store.restore.swap.between", restore_home, settings.home, tmp_path / "backup.tar.gz")
    openers = [children.start(open_home, settings.home) for _ in range(6)]
    assert [children.end_of(opener) for opener in openers] == [0] * 6
    assert await content(settings) == (["new"], ["new"], "new")


@pytest.mark.parametrize("point", RESTORE_POINTS)
async def test_a_kill_in_a_restore_of_postgresql_leaves_the_old_state_or_the_new_one(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setenv("PATH", str(postgres.programs), prepend=":")
    name = point.replace(".", "_")
    source = settings_of(tmp_path / "source", postgres.new_database(f"{name}_source"))
    await fill(source, "new")
    await back_up(source, tmp_path / "backup.tar.gz")
    settings = settings_of(tmp_path / "home", postgres.new_database(name))
    await fill(settings, "old")
    children.run_until(
        point, restore_home_in, postgres.programs, settings.home, tmp_path / "backup.tar.gz", settings.database_url
    )
    expected = "old" if point == "store.restore.plan.before" else "new"
    assert await content(settings) == ([expected], [expected], expected)


async def restore_home_in(programs: Path, home: Path, archive: Path, url: str) -> None:
    """The warm parent has the environment of when it started, so the tools are named again."""
    os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
    await restore_home(home, archive, url)


async def test_a_backup_that_is_made_while_others_write_opens_and_verifies(sqlite_path: Path, tmp_path: Path) -> None:
    writer = children.start(write_on, str(sqlite_path))
    async with await DatabaseClient.create(sqlite_path) as db:
        for i in range(5):
            await db.backup(tmp_path / f"copy-{i}.db")
    assert children.end_of(writer) == 0
    counts = []
    for i in range(5):
        async with await DatabaseClient.create(tmp_path / f"copy-{i}.db") as copy:
            assert await copy.verify() == []
            names = await copy.read(project_names)
            assert names == sorted(f"{n:05d}" for n in range(len(names)))
            counts.append(len(names))
    assert counts == sorted(counts)


async def write_on(url: str) -> None:
    async with await DatabaseClient.create(url) as db:
        for i in range(300):
            await db.transaction(new_project(f"{i:05d}"))
