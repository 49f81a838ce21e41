"""A database that cannot be opened: the error says what to do, and nothing is left behind."""

import asyncio
import shlex
import sqlite3
import subprocess
import sys
import threading
import venv
from importlib.metadata import requires
from pathlib import Path

import pytest

from perdure import DatabaseClient, PerdureError, Unavailable
from perdure.store.migrations import CHAIN
from perdure.store.postgres.connection import require_driver


def of_another_program(path: Path) -> str:
    path.write_bytes(b"this is a text and no database, and it is longer than the smallest database" * 10)
    return str(path)


def newer(path: Path, migrated: str) -> str:
    path.write_bytes(Path(migrated).read_bytes())
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {CHAIN.head + 1}")
    connection.close()
    return str(path)


def threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("perdure"))


@pytest.mark.parametrize("kind", ["not a database", "newer", "a folder", "no server"])
async def test_a_refused_opening_leaves_no_thread_behind(tmp_path: Path, migrated_sqlite: str, kind: str) -> None:
    before = threads()
    url = {
        "not a database": of_another_program(tmp_path / "text.db"),
        "newer": newer(tmp_path / "newer.db", migrated_sqlite),
        "a folder": str(tmp_path),
        "no server": "postgresql://nobody@127.0.0.1:1/nothing",
    }[kind]
    for _ in range(3):
        with pytest.raises(PerdureError):
            await DatabaseClient.create(url)
        assert threads() == before


async def test_a_closed_database_leaves_no_thread_behind(own_url: str) -> None:
    before = threads()
    client = await DatabaseClient.create(own_url)
    assert await client.ping()
    assert len(threads()) > len(before)
    await client.close()
    assert threads() == before


def test_the_command_for_a_missing_driver_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Unavailable) as refused:
        asyncio.run(DatabaseClient.create("postgresql://nobody@127.0.0.1:1/nothing"))
    command = shlex.split(refused.value.detail.partition("Run: ")[2])
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert any(each.startswith(f"{command[4]};") for each in requires("perdure") or ())
    offline = ["--no-index", "--dry-run", "--disable-pip-version-check"]  # here it is installed
    done = subprocess.run([*command, *offline], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_command_for_a_missing_driver_works_where_there_is_no_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment without pip, as uv makes them: with uv on the path, and without."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.setitem(sys.modules, "pip", None)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(Unavailable) as refused:
        require_driver()
    command = refused.value.detail.partition("Run: ")[2]
    assert command.startswith(f"{python} -m ensurepip && {python} -m pip install ")
    done = subprocess.run([python, "-m", "ensurepip", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, "installing pip itself takes ten seconds"
    (tmp_path / "uv").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "uv").chmod(0o755)
    with pytest.raises(Unavailable) as refused:
        require_driver()
    command = refused.value.detail.partition("Run: ")[2]
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.split()[:-1] == ["pip", "install", "--python", str(python)]
    assert done.stdout.split()[-1].startswith("psycopg[binary]>=")
