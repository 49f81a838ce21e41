"""What a saboteur found in backups and restores, each kept as a test."""

import gzip
import io
import json
import os
import tarfile
import tempfile
from pathlib import Path

import psycopg
import pytest

import perdure.store.sqlite.file_database  # noqa: F401 (a child that has become another user can import nothing)
from perdure import Conflict, Damaged, DatabaseClient, Denied, Invalid, Perdure
from perdure.app.home.backup import back_up, restore_backup
from perdure.settings import load_settings
from perdure.store.backup.archive import MANIFEST, unpack_archive
from perdure.store.backup.places import DATABASE, PLAN
from tests import children
from tests.crash.test_backup import restore_home, restore_home_in
from tests.postgres import PostgresServer
from tests.rows import new_project, project_names
from tests.store.test_restore import content, fill, settings_of


@pytest.fixture
async def archive(tmp_path: Path) -> Path:
    await fill(settings_of(tmp_path / "source"), "new")
    await back_up(settings_of(tmp_path / "source"), tmp_path / "backup.tar.gz")
    return tmp_path / "backup.tar.gz"


@pytest.fixture
def postgres_tools(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> PostgresServer:
    monkeypatch.setenv("PATH", str(postgres.programs), prepend=":")
    return postgres


async def test_no_process_makes_an_empty_database_while_a_restore_is_unfinished(archive: Path, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "home")
    await fill(settings, "old")
    children.run_until("store.restore.swap.between", restore_home, settings.home, archive)
    with pytest.raises(Conflict, match="interrupted"):
        await DatabaseClient.create(settings.database_url)
    assert await content(settings) == (["new"], ["new"], "new")


async def test_a_restore_that_continues_replaces_nothing_that_was_moved_aside(archive: Path, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "home")
    await fill(settings, "old")
    children.run_until("store.restore.swap.between", restore_home, settings.home, archive)
    (tmp_path / "home" / "perdure.db").write_bytes(b"somebody put this here meanwhile")
    assert await content(settings) == (["new"], ["new"], "new")
    kept = sorted(path for path in settings.home.glob("perdure.db.replaced-*") if path.stat().st_size)
    assert len(kept) == 2


async def test_a_plan_counts_only_for_its_own_home(archive: Path, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "home")
    await fill(settings, "old")
    children.run_until("store.restore.plan.after", restore_home, settings.home, archive)
    other = settings_of(tmp_path / "other")
    await fill(other, "other")
    (other.home / PLAN).write_bytes((settings.home / PLAN).read_bytes())
    with pytest.raises(Conflict, match="Finish it there"):
        await content(other)
    (other.home / PLAN).unlink()
    assert await content(other) == (["other"], ["other"], "other")
    assert await content(settings) == (["new"], ["new"], "new")


async def test_a_plan_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "home")
    await fill(settings, "old")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    swap = {"new": str(tmp_path / "evil"), "place": str(victim), "aside": str(tmp_path / "gone")}
    (tmp_path / "evil").write_text("evil")
    plan = {"home": str(settings.home), "database": settings.database_url, "swaps": [swap]}
    (settings.home / PLAN).write_text(json.dumps(plan | {"dump": None, "mark": "m", "is_whole_home": True}))
    with pytest.raises((Damaged, Conflict)):
        await content(settings)
    assert victim.read_text() == "precious"


async def test_a_link_that_leads_nowhere_is_moved_aside_like_anything_else(archive: Path, tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "home")
    await fill(settings, "old")
    (settings.bots_dir / "old" / "SOUL.md").unlink()
    (settings.bots_dir / "old").rmdir()
    settings.bots_dir.rmdir()
    settings.bots_dir.symlink_to(tmp_path / "unmounted")
    await restore_backup(settings, archive, replace=True)
    assert await content(settings) == (["new"], ["new"], "new")
    (aside,) = settings.home.glob("bots.replaced-*")
    assert aside.is_symlink()


@pytest.mark.parametrize(
    "environment",
    [
        {"MEMORY_STATE_DIR": "/data", "DATABASE_PATH": "/data/perdure.db"},
        {"MEMORY_STATE_DIR": "/home-x/bots"},
        {"MEMORY_STATE_DIR": "/home-x/bots/deep"},
        {"DATABASE_PATH": "/home-x/bots/perdure.db"},
    ],
)
def test_things_that_are_swapped_as_one_must_not_overlap(environment: dict[str, str]) -> None:
    with pytest.raises(Invalid, match="of its own"):
        load_settings({"home": "/home-x"}, environment)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become nobody")
def test_a_folder_that_cannot_be_read_is_an_error_and_not_empty() -> None:
    children.run(back_up_as_nobody)


async def back_up_as_nobody() -> None:
    with tempfile.TemporaryDirectory() as folder:  # imports all that is needed, which another user may not read
        await fill(settings_of(Path(folder) / "home"), "a")
        await back_up(settings_of(Path(folder) / "home"), Path(folder) / "b.tar.gz")
    os.setuid(65534)
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_of(Path(folder) / "home")
        await fill(settings, "a")
        settings.bots_dir.chmod(0o000)
        try:
            with pytest.raises(Denied):
                await back_up(settings, Path(folder) / "b.tar.gz")
        finally:
            settings.bots_dir.chmod(0o700)


async def test_every_name_that_can_be_backed_up_can_be_restored(tmp_path: Path) -> None:
    settings = settings_of(tmp_path / "home")
    await fill(settings, "a")
    for name in ("a\\b.txt", "-rf", "ünï", "x" * 200, "with\nnewline", ".hidden", "database", "manifest.json"):
        (settings.bots_dir / name).write_text(name)
    await back_up(settings, tmp_path / "b.tar.gz")
    await restore_backup(settings_of(tmp_path / "new"), tmp_path / "b.tar.gz", replace=False)
    restored, original = (
        sorted(path.name for path in folder.iterdir()) for folder in (tmp_path / "new" / "bots", settings.bots_dir)
    )
    assert restored == original


def hostile(path: Path, *headers: tarfile.TarInfo) -> None:
    data = io.BytesIO()
    for header in headers:
        data.write(header.tobuf(tarfile.GNU_FORMAT))
    path.write_bytes(gzip.compress(data.getvalue() + b"\0" * 1024))


def test_a_header_with_a_size_below_zero_ends_the_reading(tmp_path: Path) -> None:
    first, second = tarfile.TarInfo(DATABASE), tarfile.TarInfo(MANIFEST)
    second.size = -512
    hostile(tmp_path / "loop.tar.gz", first, second)
    with pytest.raises((Invalid, Damaged)):
        unpack_archive(tmp_path / "loop.tar.gz", {DATABASE: tmp_path / "db"})


def test_a_file_that_would_fill_the_disk_is_refused(tmp_path: Path) -> None:
    large = tarfile.TarInfo(DATABASE)
    large.size = 10**18
    hostile(tmp_path / "large.tar.gz", large)
    with pytest.raises(Exception, match="no space"):
        unpack_archive(tmp_path / "large.tar.gz", {DATABASE: tmp_path / "db"})
    assert not (tmp_path / "db").exists()


async def test_what_is_no_backup_of_ours_is_refused(tmp_path: Path) -> None:
    async with await DatabaseClient.create(tmp_path / "blank.db", migrate=False):
        pass
    settings = settings_of(tmp_path / "home")
    await fill(settings, "old")
    with pytest.raises(Invalid, match="not a backup"):
        await restore_backup(settings, tmp_path / "blank.db", replace=True)
    with pytest.raises(Invalid, match="the database itself"):
        await restore_backup(settings, Path(settings.database_url), replace=True)
    assert await content(settings) == (["old"], ["old"], "old")


async def test_a_dump_that_cannot_be_loaded_is_found_before_anything_is_moved(
    postgres_tools: PostgresServer, tmp_path: Path
) -> None:
    source = settings_of(tmp_path / "source", postgres_tools.new_database("bad_dump_source"))
    await fill(source, "new")
    await back_up(source, tmp_path / "b.tar.gz")
    target = settings_of(tmp_path / "target", postgres_tools.new_database("bad_dump"))
    await fill(target, "old")
    with psycopg.connect(target.database_url) as connection:
        connection.execute("CREATE SCHEMA mine")
    elsewhere = settings_of(tmp_path / "target", f"{target.database_url}&options=-csearch_path%3Dmine")
    with pytest.raises(Invalid, match="schema mine"):
        await restore_backup(elsewhere, tmp_path / "b.tar.gz", replace=True)
    assert await content(target) == (["old"], ["old"], "old")
    assert not (target.home / PLAN).exists()


async def test_an_interrupted_restore_is_not_finished_in_another_database(
    postgres_tools: PostgresServer, tmp_path: Path
) -> None:
    source = settings_of(tmp_path / "source", postgres_tools.new_database("plan_source"))
    await fill(source, "new")
    await back_up(source, tmp_path / "b.tar.gz")
    target = settings_of(tmp_path / "home", postgres_tools.new_database("plan_target"))
    await fill(target, "old")
    children.run_until(
        "store.restore.plan.after",
        restore_home_in,
        postgres_tools.programs,
        target.home,
        tmp_path / "b.tar.gz",
        target.database_url,
    )
    wrong = postgres_tools.new_database("plan_wrong")
    for url in (wrong, None):
        with pytest.raises(Conflict, match="Finish it there"):
            async with Perdure.open(target.home, database_url=url):
                pass
    assert await content(target) == (["new"], ["new"], "new")


async def test_two_restores_in_one_second_each_do_their_own_work(
    postgres_tools: PostgresServer, tmp_path: Path
) -> None:
    target = settings_of(tmp_path / "home", postgres_tools.new_database("twice"))
    await fill(target, "old")
    for name in ("one", "two"):
        source = settings_of(tmp_path / name, postgres_tools.new_database(f"twice_{name}"))
        await fill(source, name)
        await back_up(source, tmp_path / f"{name}.tar.gz")
    for name in ("one", "two"):
        await restore_backup(target, tmp_path / f"{name}.tar.gz", replace=True)
        async with Perdure.open(target.home, database_url=target.database_url) as p:
            assert await p.database.read(project_names) == [name]
            await p.database.transaction(new_project("more"))


async def test_a_schema_is_dumped_by_its_name_and_not_by_a_pattern(
    postgres_tools: PostgresServer, tmp_path: Path
) -> None:
    url = postgres_tools.new_database("patterns")
    with psycopg.connect(url) as connection:
        connection.execute('CREATE SCHEMA "Tenant"')
        connection.execute("CREATE SCHEMA tenant")
    upper = settings_of(tmp_path / "upper", f"{url}&options=-csearch_path%3D%22Tenant%22")
    lower = settings_of(tmp_path / "lower", f"{url}&options=-csearch_path%3Dtenant")
    await fill(upper, "upper")
    await fill(lower, "lower")
    await back_up(upper, tmp_path / "b.tar.gz")
    await restore_backup(upper, tmp_path / "b.tar.gz", replace=True)
    assert await content(upper) == (["upper"], ["upper"], "upper")
    assert await content(lower) == (["lower"], ["lower"], "lower")
