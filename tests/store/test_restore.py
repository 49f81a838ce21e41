"""Backups put back: nothing is lost, nothing is replaced unasked, and an interrupted one is finished."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from perdure import Conflict, Damaged, Invalid, NotFound, Perdure, Unavailable
from perdure.app.home.backup import back_up, restore_backup
from perdure.settings import Settings, load_settings
from perdure.store.backup.archive import write_archive
from perdure.store.backup.places import PLAN
from tests.postgres import PostgresServer
from tests.rows import new_project, project_names


def settings_of(home: Path, database_url: str | None = None) -> Settings:
    return load_settings({"home": str(home), "database_url": database_url}, {})


async def fill(settings: Settings, name: str) -> None:
    """A home with one project, one bot and one memory, all of the same name."""
    async with Perdure.open(settings.home, database_url=settings.database_url) as p:
        await p.database.transaction(new_project(name))
    for path in (settings.bots_dir / name / "SOUL.md", settings.memory_state_dir / "memory.jsonl"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


async def content(settings: Settings) -> tuple[list[str], list[str], str]:
    async with Perdure.open(settings.home, database_url=settings.database_url) as p:
        assert await p.database.verify() == []
        names = await p.database.read(project_names)
    bots = sorted(path.name for path in settings.bots_dir.glob("[!.]*"))
    return names, bots, (settings.memory_state_dir / "memory.jsonl").read_text()


@pytest.fixture
async def archive(tmp_path: Path) -> Path:
    await fill(settings_of(tmp_path / "source"), "old")
    await back_up(settings_of(tmp_path / "source"), tmp_path / "backup.tar.gz")
    return tmp_path / "backup.tar.gz"


async def test_a_backup_comes_back_whole_in_a_new_home(archive: Path, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "new")
    done = await restore_backup(settings, archive, replace=False)
    assert await content(settings) == (["old"], ["old"], "old")
    assert done.aside == ()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


async def test_a_restored_database_is_in_wal_mode_at_once(archive: Path, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "new")
    await restore_backup(settings, archive, replace=False)
    with closing(sqlite3.connect(settings.database_url)) as plain:
        assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_home_that_is_not_empty_is_refused_and_left(archive: Path, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "used")
    await fill(settings, "mine")
    with pytest.raises(Conflict, match="not empty.*--replace"):
        await restore_backup(settings, archive, replace=False)
    assert await content(settings) == (["mine"], ["mine"], "mine")
    assert not list(settings.home.glob(".*"))


async def test_an_unknown_file_in_the_home_counts_too(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes.txt").write_text("mine")
    with pytest.raises(Conflict, match="notes.txt"):
        await restore_backup(settings_of(tmp_path / "used"), archive, replace=False)


async def test_a_plan_that_a_kill_left_half_written_is_removed_by_the_next_restore(
    archive: Path, tmp_path: Path
) -> None:
    home = tmp_path / "new"
    home.mkdir()
    (home / ".restore.json.part-0123abcd").write_text("{")
    await restore_backup(settings_of(home), archive, replace=False)
    assert list(home.glob(".restore.json*")) == []


async def test_settings_and_logs_do_not_make_a_home_full(archive: Path, tmp_path: Path) -> None:
    home = tmp_path / "used"
    (home / "logs").mkdir(parents=True)
    (home / "run").mkdir()
    (home / "home_id").write_text("x")
    (home / "config.toml").write_text("")
    await restore_backup(settings_of(home), archive, replace=False)
    assert (home / "config.toml").exists()


async def test_replace_moves_everything_aside_and_deletes_nothing(archive: Path, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "used")
    await fill(settings, "mine")
    done = await restore_backup(settings, archive, replace=True)
    assert await content(settings) == (["old"], ["old"], "old")
    database, bots, memory = _by_name(done.aside)
    with closing(sqlite3.connect(database)) as plain:
        assert plain.execute("SELECT name FROM projects").fetchall() == [("mine",)]
    assert (bots / "mine" / "SOUL.md").read_text() == "mine"
    assert (memory / "memory.jsonl").read_text() == "mine"


def _by_name(aside: tuple[str, ...]) -> tuple[Path, Path, Path]:
    found = {Path(path).name.split(".")[0]: Path(path) for path in aside}
    return found["perdure"], found["bots"], found["state"]


async def test_what_the_archive_does_not_have_is_moved_aside_too(tmp_path: Path) -> None:
    async with Perdure.open(tmp_path / "bare") as p:
        await p.database.transaction(new_project("bare"))
    await back_up(settings_of(tmp_path / "bare"), tmp_path / "bare.tar.gz")
    settings = settings_of(tmp_path / "used")
    await fill(settings, "mine")
    await restore_backup(settings, tmp_path / "bare.tar.gz", replace=True)
    assert list(settings.bots_dir.iterdir()) == []


async def test_replacing_twice_in_one_second_keeps_both(archive: Path, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "used")
    await fill(settings, "mine")
    for _ in range(3):
        await restore_backup(settings, archive, replace=True)
    kept = [path for path in settings.home.glob("perdure.db.replaced-*") if not path.name.endswith(("-wal", "-shm"))]
    assert len(kept) == 3


async def test_a_damaged_database_can_be_replaced(archive: Path, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "used")
    settings.home.mkdir()
    Path(settings.database_url).write_text("this is no database, but it may be precious" * 100)
    await restore_backup(settings, archive, replace=True)
    assert await content(settings) == (["old"], ["old"], "old")
    (aside,) = settings.home.glob("perdure.db.replaced-*")
    assert aside.read_text().startswith("this is no database")


async def test_a_plain_copy_of_the_database_replaces_the_database_alone(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "used")
    await fill(settings, "before")
    async with Perdure.open(settings.home) as p:
        await p.database.backup(tmp_path / "copy.db")
        await p.database.transaction(new_project("after"))
    with pytest.raises(Conflict):
        await restore_backup(settings, tmp_path / "copy.db", replace=False)
    await restore_backup(settings, tmp_path / "copy.db", replace=True)
    assert await content(settings) == (["before"], ["before"], "before")


async def test_a_database_that_is_in_use_is_not_replaced(archive: Path, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "used")
    async with Perdure.open(settings.home) as p:
        await p.database.transaction(new_project("mine"))
        with pytest.raises(Conflict, match="in use"):
            await restore_backup(settings, archive, replace=True)
        await p.database.transaction(new_project("mine too"))
        assert await p.database.read(project_names) == ["mine", "mine too"]
    assert not (settings.home / PLAN).exists()


async def test_an_archive_with_a_damaged_database_changes_nothing(tmp_path: Path) -> None:
    source = settings_of(tmp_path / "source")
    await fill(source, "old")
    path = Path(source.database_url)
    data = bytearray(path.read_bytes())
    data[4096 * 5 : 4096 * 6] = b"\xaa" * 4096
    path.write_bytes(data)
    write_archive(tmp_path / "bad.tar.gz", dump=path, database="sqlite", version=1, folders={}, program="test")
    settings = settings_of(tmp_path / "used")
    await fill(settings, "mine")
    with pytest.raises(Damaged):
        await restore_backup(settings, tmp_path / "bad.tar.gz", replace=True)
    assert await content(settings) == (["mine"], ["mine"], "mine")


async def test_a_backup_that_is_not_there_or_is_none_gets_a_conflict(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "new")
    with pytest.raises(NotFound):
        await restore_backup(settings, tmp_path / "nothing", replace=False)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(Invalid, match="neither"):
        await restore_backup(settings, tmp_path / "text", replace=False)
    with pytest.raises(Invalid, match="folder"):
        await restore_backup(settings, tmp_path, replace=False)


async def test_a_plan_that_cannot_be_read_stops_the_home_from_being_opened(tmp_path: Path) -> None:
    home = tmp_path / "used"
    home.mkdir()
    (home / PLAN).write_text("{")
    with pytest.raises(Damaged, match=PLAN):
        async with Perdure.open(home):
            pass
    assert not (home / "perdure.db").exists()


async def test_places_outside_the_home_are_backed_up_and_restored(tmp_path: Path) -> None:
    environment = {
        "PERDURE_HOME": str(tmp_path / "home"),
        "DATABASE_PATH": str(tmp_path / "elsewhere" / "data.db"),
        "MEMORY_STATE_DIR": str(tmp_path / "memories"),
    }
    settings = load_settings({}, environment)
    await fill(settings, "old")
    await back_up(settings, tmp_path / "backup.tar.gz")
    async with Perdure.open(settings.home, database_url=settings.database_url) as p:
        await p.database.transaction(new_project("new"))
    await restore_backup(settings, tmp_path / "backup.tar.gz", replace=True)
    assert await content(settings) == (["old"], ["old"], "old")


@pytest.fixture
def postgres_tools(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> PostgresServer:
    monkeypatch.setenv("PATH", str(postgres.programs), prepend=":")
    return postgres


async def test_postgresql_goes_into_an_archive_and_comes_back(postgres_tools: PostgresServer, tmp_path: Path) -> None:
    source = settings_of(tmp_path / "source", postgres_tools.new_database("backup_source"))
    await fill(source, "old")
    await back_up(source, tmp_path / "backup.tar.gz")
    target = settings_of(tmp_path / "target", postgres_tools.new_database("backup_target"))
    await restore_backup(target, tmp_path / "backup.tar.gz", replace=False)
    assert await content(target) == (["old"], ["old"], "old")
    await fill(target, "new")
    with pytest.raises(Conflict, match="not empty"):
        await restore_backup(target, tmp_path / "backup.tar.gz", replace=False)
    done = await restore_backup(target, tmp_path / "backup.tar.gz", replace=True)
    assert await content(target) == (["old"], ["old"], "old")
    assert done.restored[0] == target.database_url
    schema = done.aside[0].removeprefix("the schema ")
    async with Perdure.open(target.home, database_url=target.database_url) as p:
        assert await p.database.read(lambda tx: tx.scalar(f"SELECT count(*) FROM {schema}.projects")) == 2


async def test_tables_of_other_programs_are_neither_dumped_nor_moved(
    postgres_tools: PostgresServer, tmp_path: Path
) -> None:
    settings = settings_of(tmp_path / "home", postgres_tools.new_database("shared"))
    with psycopg.connect(settings.database_url) as connection:
        connection.execute('CREATE TABLE "Other""s" (id INTEGER)')
        connection.execute("CREATE VIEW other_view AS SELECT 1 AS one")
    await fill(settings, "old")
    await back_up(settings, tmp_path / "backup.tar.gz")
    await restore_backup(settings, tmp_path / "backup.tar.gz", replace=True)
    assert await content(settings) == (["old"], ["old"], "old")
    with psycopg.connect(settings.database_url) as connection:
        assert connection.execute('SELECT count(*) FROM public."Other""s"').fetchone() == (0,)
        assert connection.execute("SELECT one FROM public.other_view").fetchone() == (1,)


async def test_a_sqlite_archive_is_not_put_into_postgresql(
    archive: Path, postgres: PostgresServer, tmp_path: Path
) -> None:
    target = settings_of(tmp_path / "target", postgres.new_database("wrong_kind"))
    with pytest.raises(Invalid, match="sqlite"):
        await restore_backup(target, archive, replace=False)
    assert not list(target.home.glob(".*restoring*"))


async def test_without_the_tools_of_postgresql_a_backup_says_what_is_missing(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(tmp_path / "home", postgres.new_database("no_tools"))
    await fill(settings, "a")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="pg_dump"):
        await back_up(settings, tmp_path / "backup.tar.gz")
    assert not (tmp_path / "backup.tar.gz").exists()
