"""What happens when something is in the place of a database."""

import hashlib
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import perdure.store.sqlite.file_database  # noqa: F401 (a child that has become another user can import nothing)
from perdure import Conflict, Damaged, DatabaseClient, Denied, Invalid
from perdure.store.migrations import CHAIN
from perdure.store.sqlite.connection import APPLICATION_ID
from tests import children
from tests.rows import new_project, project_names


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder with the digest of its bytes; the lock and the shared index hold nothing."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith((".lock", "-shm"))
    }


async def new_database(path: Path) -> None:
    async with await DatabaseClient.create(path) as db:
        await db.transaction(new_project("a"))


async def test_missing_parent_folders_are_made_private(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "perdure.db"
    await new_database(path)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600


async def test_every_file_is_private_while_it_is_open(sqlite_path: Path) -> None:
    async with await DatabaseClient.create(sqlite_path) as db:
        await db.transaction(new_project("a"))
        names = {path.name: path.stat().st_mode & 0o777 for path in sqlite_path.parent.glob("perdure.db*")}
    assert names == dict.fromkeys(["perdure.db", "perdure.db-wal", "perdure.db-shm", "perdure.db.lock"], 0o600)


async def test_after_close_only_the_database_and_its_lock_are_left(sqlite_path: Path) -> None:
    await new_database(sqlite_path)
    assert sorted(path.name for path in sqlite_path.parent.iterdir()) == ["perdure.db", "perdure.db.lock"]


async def test_the_file_says_whose_it_is(sqlite_path: Path) -> None:
    await new_database(sqlite_path)
    with closing(sqlite3.connect(sqlite_path)) as plain:
        assert plain.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert plain.execute("PRAGMA user_version").fetchone() == (CHAIN.head,)
        assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_folder_in_place_of_the_file_is_refused(sqlite_path: Path) -> None:
    sqlite_path.mkdir()
    with pytest.raises(Invalid, match="not a file"):
        await DatabaseClient.create(sqlite_path)


async def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(Invalid, match="folder"):
        await DatabaseClient.create(tmp_path / "file" / "perdure.db")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("size", [1, 15, 16, 100, 4096, 100_000])
async def test_a_file_that_is_no_database_is_refused_and_left(sqlite_path: Path, size: int) -> None:
    sqlite_path.write_bytes(b"x" * size)
    before = contents(sqlite_path.parent)
    with pytest.raises(Damaged):
        await DatabaseClient.create(sqlite_path)
    assert contents(sqlite_path.parent) == before


@pytest.mark.parametrize("offset", [0, 16, 18, 21, 22])
async def test_a_damaged_header_is_refused_and_left(sqlite_path: Path, offset: int) -> None:
    await new_database(sqlite_path)
    data = bytearray(sqlite_path.read_bytes())
    data[offset] ^= 0xFF
    sqlite_path.write_bytes(data)
    before = contents(sqlite_path.parent)
    with pytest.raises((Damaged, Denied)):
        await DatabaseClient.create(sqlite_path)
    assert contents(sqlite_path.parent) == before


async def test_a_database_that_was_cut_off_is_never_replaced_by_an_empty_one(sqlite_path: Path) -> None:
    await new_database(sqlite_path)
    os.truncate(sqlite_path, 0)
    with pytest.raises(Damaged, match="empty"):
        await DatabaseClient.create(sqlite_path)
    assert sqlite_path.stat().st_size == 0


async def test_an_empty_file_where_no_database_ever_was_becomes_one(sqlite_path: Path) -> None:
    sqlite_path.touch()
    await new_database(sqlite_path)
    assert sqlite_path.stat().st_size > 0


async def test_a_log_without_its_database_is_refused_and_left(sqlite_path: Path) -> None:
    children.run_until("store.commit.after", new_database, sqlite_path)
    sqlite_path.unlink()
    before = contents(sqlite_path.parent)
    with pytest.raises(Damaged, match="perdure.db-wal is still there"):
        await DatabaseClient.create(sqlite_path)
    assert contents(sqlite_path.parent) == before


async def test_a_database_of_another_program_is_refused_and_left(sqlite_path: Path) -> None:
    with closing(sqlite3.connect(sqlite_path)) as other:
        other.execute("CREATE TABLE bookmarks (url TEXT)")
    before = contents(sqlite_path.parent)
    with pytest.raises(Invalid, match="another program"):
        await DatabaseClient.create(sqlite_path)
    assert contents(sqlite_path.parent) == before


async def test_a_database_of_another_program_with_our_version_number_is_refused(sqlite_path: Path) -> None:
    with closing(sqlite3.connect(sqlite_path)) as other:
        other.execute("PRAGMA user_version = 1")
    with pytest.raises(Invalid, match="another program"):
        await DatabaseClient.create(sqlite_path)


@pytest.mark.parametrize("migrate", [True, False])
async def test_a_newer_database_is_refused_and_left_byte_for_byte(sqlite_path: Path, migrate: bool) -> None:
    await new_database(sqlite_path)
    with closing(sqlite3.connect(sqlite_path)) as newer:
        newer.execute("PRAGMA user_version = 99")
    before = contents(sqlite_path.parent)
    with pytest.raises(Conflict, match="0099"):
        await DatabaseClient.create(sqlite_path, migrate=migrate)
    assert contents(sqlite_path.parent) == before


async def test_a_newer_database_whose_log_was_not_moved_back_is_left_byte_for_byte(sqlite_path: Path) -> None:
    children.run_until("store.commit.after", make_newer, sqlite_path)
    before = contents(sqlite_path.parent)
    assert "perdure.db-wal" in before
    with pytest.raises(Conflict, match="0099"):
        await DatabaseClient.create(sqlite_path)
    assert contents(sqlite_path.parent) == before


async def make_newer(path: Path) -> None:
    async with await DatabaseClient.create(path) as db:
        await db.transaction(lambda tx: tx.execute("PRAGMA user_version = 99"))


async def test_a_copy_made_by_other_tools_is_taken_and_put_into_wal_mode(sqlite_path: Path, tmp_path: Path) -> None:
    await new_database(sqlite_path)
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(sqlite_path)) as plain:
        plain.execute("VACUUM INTO ?", [str(copy)])
    async with await DatabaseClient.create(copy) as db:
        assert (await db.health()).facts["journal_mode"] == "wal"
        assert await db.read(project_names) == ["a"]


async def test_names_that_look_like_options_or_escapes_are_just_names(tmp_path: Path) -> None:
    for name in ("a?mode=memory", "b%41.db", "c#d.db", "ünï.db", "with space.db", "-rf.db"):
        await new_database(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 0


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become nobody")
@pytest.mark.parametrize("what", ["folder", "file"])
async def test_what_may_not_be_written_is_reported(what: str) -> None:
    folder = Path("/tmp") / f"perdure-denied-{os.getpid()}-{what}"
    folder.mkdir(mode=0o755)
    try:
        path = folder / "perdure.db"
        if what == "file":
            await new_database(path)
            (folder / "perdure.db.lock").chmod(0o666)
        before = contents_of_readable(folder)
        children.run(as_nobody_denied, path)
        assert contents_of_readable(folder) == before
    finally:
        shutil.rmtree(folder)


def contents_of_readable(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def as_nobody_denied(path: Path) -> None:
    os.setuid(65534)
    with pytest.raises(Denied):
        await DatabaseClient.create(path)
