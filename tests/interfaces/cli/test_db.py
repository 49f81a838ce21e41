"""`perdure db`: migrate, status, tables and verify."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure import DatabaseClient
from perdure.interfaces.cli.errors import run
from tests.rows import new_project

PROJECT_TABLES = {
    "projects",
    "features",
    "sub_features",
    "tasks",
    "agents",
    "checkpoints",
    "requirements",
    "metrics",
    "sessions",
}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where the database of the home belongs; it is not there yet."""
    return tmp_path / "home" / "perdure.db"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """What a command that succeeds answers to a program."""
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def unmigrated(path: Path) -> None:
    async def make() -> None:
        await (await DatabaseClient.create(path, migrate=False)).close()

    asyncio.run(make())


def with_a_project(path: Path) -> None:
    async def fill() -> None:
        async with await DatabaseClient.create(path) as client:
            await client.transaction(new_project("a"))

    asyncio.run(fill())


def tables_in(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def spoil_the_middle(path: Path) -> None:
    """Overwrite the page of a table in the middle of a database that nobody has open."""
    with closing(sqlite3.connect(path)) as plain:
        (page,) = plain.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'tasks'").fetchone()
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xa5" * 4096
    path.write_bytes(content)


def test_migrate_prints_how_many_tables_there_are_and_their_names(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["db", "migrate"]) == 0
    said = capsys.readouterr().out
    names = tables_in(database) - {"alembic_version"}
    assert f"{len(names)} tables: {', '.join(sorted(names))}." in said
    assert names > PROJECT_TABLES


def test_migrating_again_says_and_changes_nothing_new(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = answer(capsys, "db", "migrate")
    before = database.read_bytes()
    assert answer(capsys, "db", "migrate") == first | {"before": first["version"]}
    assert database.read_bytes() == before


def test_migrate_answers_with_number_and_names(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "db", "migrate")
    assert found["count"] == len(found["tables"])
    assert set(found["tables"]) > PROJECT_TABLES
    assert found["version"] == found["head"]


def test_migrate_brings_an_older_database_to_the_newest_version(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unmigrated(database)
    found = answer(capsys, "db", "migrate")
    assert found["version"] == found["head"]
    assert tables_in(database) > PROJECT_TABLES


def test_status_shows_what_durability_depends_on(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "db", "status")
    assert found["journal_mode"] == "wal"
    assert found["synchronous"] == "full"
    assert found["foreign_keys"] is True
    assert found["location"] == str(database)


def test_status_shows_versions(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "db", "status")
    assert found["version"] == found["head"]
    assert found["head"].isdecimal()
    assert found["sqlite_version"] == sqlite3.sqlite_version
    assert found["sqlite_affected"] is (sqlite3.sqlite_version_info < (3, 51, 3))


def test_status_shows_a_person_the_same_as_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "db", "status")
    assert run(["db", "status"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines[1:]] == list(found)
    assert ["journal_mode", "wal"] in lines
    assert ["foreign_keys", "on"] in lines


@pytest.mark.parametrize("command", ["status", "tables"])
def test_looking_makes_the_tables_of_a_database_that_has_none(
    command: str, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unmigrated(database)
    answer(capsys, "db", command)
    assert tables_in(database) > PROJECT_TABLES


def test_tables_lists_the_tables_of_a_project_without_bookkeeping(capsys: pytest.CaptureFixture[str]) -> None:
    names = answer(capsys, "db", "tables")["tables"]
    assert set(names) > PROJECT_TABLES
    assert "alembic_version" not in names
    assert names == sorted(names)


def test_tables_counts_rows(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_a_project(database)
    rows = answer(capsys, "db", "tables")["rows"]
    assert (rows["projects"], rows["tasks"]) == (1, 0)


def test_tables_shows_a_person_one_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    names = answer(capsys, "db", "tables")["tables"]
    assert run(["db", "tables"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [[name, "0"] for name in names]


def test_verify_finds_a_new_database_in_order(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["db", "migrate", "--json"])
    capsys.readouterr()
    found = answer(capsys, "db", "verify")
    assert (found["ok"], found["location"], found["problems"]) == (True, str(database), [])
    assert run(["db", "verify"]) == 0
    assert capsys.readouterr().out == f"{database}: no problems found.\n"


def test_verify_without_a_database_finds_and_makes_none(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "verify"]) == 3
    assert f"No database at {database}" in capsys.readouterr().err
    assert not database.parent.exists()


def test_verify_names_what_is_missing(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["db", "migrate", "--json"])
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DROP INDEX idx_tasks_status")
    capsys.readouterr()
    assert run(["db", "verify", "--json"]) == 7
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["problems"]) == (False, ["the index idx_tasks_status is missing"])


def test_verify_finds_damage_in_the_middle_of_the_file(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_a_project(database)
    spoil_the_middle(database)
    spoiled = database.read_bytes()
    assert run(["db", "verify", "--json"]) == 7
    found = json.loads(capsys.readouterr().out)
    assert not found["ok"]
    assert found["problems"]
    assert database.read_bytes() == spoiled


def test_verify_tells_a_person_about_damage_without_a_traceback(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["db", "migrate"])
    spoil_the_middle(database)
    capsys.readouterr()
    assert run(["db", "verify"]) == 7
    said = capsys.readouterr()
    assert said.out.strip()
    assert "Traceback" not in said.out + said.err


@pytest.mark.parametrize("content", [b"hello", b"hello" * 10_000], ids=["small", "large"])
@pytest.mark.parametrize("command", ["migrate", "status", "tables", "verify"])
def test_a_file_that_is_no_database_is_refused_and_kept(
    command: str, content: bytes, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database.parent.mkdir()
    database.write_bytes(content)
    assert run(["db", command]) == 7
    assert str(database) in capsys.readouterr().err
    assert database.read_bytes() == content


@pytest.mark.parametrize("command", ["migrate", "status", "tables", "verify"])
def test_a_folder_in_place_of_the_database_is_refused(
    command: str, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database.mkdir(parents=True)
    assert run(["db", command]) == 2
    assert f"{database} must be a database file" in capsys.readouterr().err


def test_a_database_of_another_program_is_refused_and_kept(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database.parent.mkdir()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    before = database.read_bytes()
    assert run(["db", "migrate"]) == 2
    assert "another program" in capsys.readouterr().err
    assert database.read_bytes() == before


@pytest.mark.parametrize("command", ["migrate", "status", "tables", "verify", "backup"])
def test_an_unknown_kind_of_database_is_wrong_usage(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDURE_DATABASE_URL", "mysql://me:hunter2@host/x")
    assert run(["db", command]) == 2
    said = capsys.readouterr().err
    assert "unknown kind of database 'mysql'" in said
    assert "hunter2" not in said


def test_the_database_path_is_used_when_there_is_no_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_PATH", str(tmp_path / "elsewhere" / "work.db"))
    assert answer(capsys, "db", "migrate")["location"] == str(tmp_path / "elsewhere" / "work.db")
    assert (tmp_path / "elsewhere" / "work.db").is_file()
