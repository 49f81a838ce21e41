"""`perdure db backup` and `perdure db restore`."""

import asyncio
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from perdure import DatabaseClient
from perdure.interfaces.cli.errors import run
from tests.rows import new_project, project_names

SOUL = "I am kind.\n"
SKILL = "---\nname: money\ndescription: Mine.\n---\nDo it.\n"
RECORDS = '{"id": 1}\n'


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a current folder of its own."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a project, a bot, a skill and a memory."""
    folder = tmp_path / "home"
    asyncio.run(add_project(folder, "a"))
    write(folder / "bots" / "ann" / "SOUL.md", SOUL)
    write(folder / "skills" / "money" / "SKILL.md", SKILL)
    write(folder / "state" / "memory.jsonl", RECORDS)
    return folder


@pytest.fixture
def archive(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A backup of that home."""
    path = tmp_path / "backup.tar.gz"
    assert run(["db", "backup", str(path), "--home", str(home)]) == 0
    capsys.readouterr()
    return path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def add_project(home: Path, name: str) -> None:
    async with await DatabaseClient.create(home / "perdure.db") as client:
        await client.transaction(new_project(name))


def projects(database: Path) -> list[str]:
    async def read() -> list[str]:
        async with await DatabaseClient.create(database, migrate=False) as client:
            return await client.read(project_names)

    return asyncio.run(read())


def holds_everything(home: Path) -> bool:
    return (
        projects(home / "perdure.db") == ["a"]
        and (home / "bots" / "ann" / "SOUL.md").read_text() == SOUL
        and (home / "skills" / "money" / "SKILL.md").read_text() == SKILL
        and (home / "state" / "memory.jsonl").read_text() == RECORDS
    )


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_what_was_backed_up_is_what_is_restored(archive: Path, tmp_path: Path) -> None:
    assert run(["db", "restore", str(archive), "--home", str(tmp_path / "new")]) == 0
    assert holds_everything(tmp_path / "new")


def test_a_restored_home_verifies(archive: Path, tmp_path: Path) -> None:
    run(["db", "restore", str(archive), "--home", str(tmp_path / "new")])
    assert run(["db", "verify", "--home", str(tmp_path / "new")]) == 0


def test_a_backup_holds_database_bots_skills_and_memory(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "db", "backup", "b.tar.gz", "--home", str(home))
    with tarfile.open(found["path"]) as content:
        folders = ["bots/ann/SOUL.md", "memory/memory.jsonl", "skills/money/SKILL.md"]
        assert content.getnames() == ["database", *folders, "manifest.json"]
    assert found["files"] == 4
    assert found["size_bytes"] == Path(found["path"]).stat().st_size


def test_a_backup_is_private(archive: Path) -> None:
    assert archive.stat().st_mode & 0o777 == 0o600


def test_a_backup_without_a_name_gets_a_dated_one_in_the_current_folder(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Path(answer(capsys, "db", "backup", "--home", str(home))["path"])
    assert list(Path.cwd().iterdir()) == [found]
    assert found.match("perdure-*-*.tar.gz")


def test_a_backup_leaves_the_home_unchanged(home: Path, archive: Path) -> None:
    assert holds_everything(home)
    assert archive.is_file()


def test_a_backup_never_replaces_a_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("taken").write_text("mine")
    assert run(["db", "backup", "taken", "--home", str(home)]) == 4
    assert "already exists" in capsys.readouterr().err
    assert Path("taken").read_text() == "mine"
    assert [path.name for path in Path.cwd().iterdir()] == ["taken"]


def test_nothing_cannot_be_backed_up(tmp_path: Path) -> None:
    assert run(["db", "backup", "b.tar.gz"]) == 3
    assert not (tmp_path / "home").exists()
    assert list(Path.cwd().iterdir()) == []


def test_a_home_in_use_is_not_restored_over(home: Path, archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(add_project(home, "b"))
    write(home / "bots" / "ann" / "SOUL.md", "I am new.\n")
    assert run(["db", "restore", str(archive), "--home", str(home)]) == 4
    assert "--replace" in capsys.readouterr().err
    assert projects(home / "perdure.db") == ["a", "b"]
    assert (home / "bots" / "ann" / "SOUL.md").read_text() == "I am new.\n"


def test_a_folder_that_holds_something_else_is_not_taken_for_a_home(archive: Path, tmp_path: Path) -> None:
    write(tmp_path / "photos" / "me.jpg", "me")
    assert run(["db", "restore", str(archive), "--home", str(tmp_path / "photos")]) == 4
    assert not (tmp_path / "photos" / "perdure.db").exists()


def test_settings_and_logs_do_not_keep_a_home_from_being_restored_into(archive: Path, tmp_path: Path) -> None:
    write(tmp_path / "new" / "config.toml", "")
    write(tmp_path / "new" / "logs" / "perdure.log", "")
    assert run(["db", "restore", str(archive), "--home", str(tmp_path / "new")]) == 0
    assert holds_everything(tmp_path / "new")


def test_replace_puts_the_backup_in_place(home: Path, archive: Path) -> None:
    asyncio.run(add_project(home, "b"))
    write(home / "bots" / "new" / "SOUL.md", "I am new.\n")
    assert run(["db", "restore", str(archive), "--replace", "--home", str(home)]) == 0
    assert holds_everything(home)
    assert not (home / "bots" / "new").exists()


def test_replace_moves_aside_what_was_there_byte_for_byte(
    home: Path, archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(add_project(home, "b"))
    write(home / "bots" / "ann" / "SOUL.md", "I am new.\n")
    before = (home / "perdure.db").read_bytes()
    aside = [
        Path(path) for path in answer(capsys, "db", "restore", str(archive), "--replace", "--home", str(home))["aside"]
    ]
    database, bots, skills, memory = aside
    assert database.read_bytes() == before
    assert (bots / "ann" / "SOUL.md").read_text() == "I am new.\n"
    assert (memory / "memory.jsonl").read_text() == RECORDS
    assert skills.name.startswith("skills.replaced-")


def test_replacing_twice_keeps_both_of_what_was_there(
    home: Path, archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["db", "restore", str(archive), "--replace", "--home", str(home)]
    first, second = answer(capsys, *arguments)["aside"], answer(capsys, *arguments)["aside"]
    assert len({*first, *second}) == 8
    assert all(Path(path).exists() for path in (*first, *second))


def test_replace_repairs_a_damaged_home_and_keeps_the_damage(home: Path, archive: Path) -> None:
    (home / "perdure.db").write_bytes(b"noise" * 10_000)
    assert run(["db", "restore", str(archive), "--replace", "--home", str(home)]) == 0
    assert holds_everything(home)
    assert [path.read_bytes() for path in home.glob("perdure.db.replaced-*")] == [b"noise" * 10_000]


def test_a_plain_copy_of_a_database_is_restored_too(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_bytes((home / "perdure.db").read_bytes())
    assert run(["db", "restore", str(copy), "--home", str(tmp_path / "new")]) == 0
    assert projects(tmp_path / "new" / "perdure.db") == ["a"]


@pytest.mark.parametrize(
    ("content", "code"),
    [(None, 3), (b"", 7), (b"hello", 2), (b"\x1f\x8bhello", 7), (b"SQLite format 3\0hello", 7)],
    ids=["absent", "empty", "text", "broken archive", "broken database"],
)
def test_what_is_no_backup_changes_nothing(content: bytes | None, code: int, home: Path) -> None:
    if content is not None:
        Path("source").write_bytes(content)
    assert run(["db", "restore", "source", "--replace", "--home", str(home)]) == code
    assert holds_everything(home)
    assert list(home.glob("*.replaced-*")) == []


def test_a_folder_is_not_a_backup(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "restore", ".", "--replace", "--home", str(home)]) == 2
    assert "is a folder" in capsys.readouterr().err
    assert holds_everything(home)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
def test_a_backup_that_is_not_whole_changes_nothing(kept: float, home: Path, archive: Path) -> None:
    content = archive.read_bytes()
    archive.write_bytes(content[: int(len(content) * kept)])
    assert run(["db", "restore", str(archive), "--replace", "--home", str(home)]) == 7
    assert holds_everything(home)
