"""`perdure db migrate` beside a process of an older version: it is named, and cannot write any more."""

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from perdure import Conflict
from perdure.interfaces.cli.errors import run
from perdure.store.migrations import CHAIN
from tests import children
from tests.rows import new_project, project_names
from tests.store.test_migrations import chain_until, open_with


@pytest.fixture(autouse=True)
def home(database_url: str) -> None:
    """A home whose settings name the database; an environment variable would reach the children of other tests."""
    home = Path(os.environ["PERDURE_HOME"])
    home.mkdir()
    (home / "config.toml").write_text(f'database_url = "{database_url}"\n')


async def hold_open(url: str, folder: Path, pipe: Connection) -> None:
    """Be a server of the version before; when told, try to write."""
    database = await open_with(url, chain_until(folder, CHAIN.head - 1))
    await database.read(project_names)  # a server polls, so that it is connected
    pipe.send("open")
    await asyncio.to_thread(pipe.recv)
    try:
        await database.write(new_project("late"))
        pipe.send("written")
    except Conflict as error:
        pipe.send(error.detail)
    await database.close()


@contextmanager
def older_process(url: str, folder: Path) -> Iterator[tuple[int, Connection]]:
    ours, theirs = children.context().Pipe()
    child = children.start(hold_open, url, folder, theirs)
    theirs.close()
    assert ours.recv() == "open"
    assert child.pid is not None
    yield child.pid, ours
    assert children.end_of(child) == 0


def test_migrate_names_the_processes_that_have_to_be_restarted(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with older_process(database_url, tmp_path) as (pid, pipe):
        assert run(["db", "migrate", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["outdated_processes"] == [{"pid": pid, "host": socket.gethostname()}]
        pipe.send("write")
        assert "Restart this process with the newer Perdure" in pipe.recv()
    assert run(["db", "migrate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outdated_processes"] == []


def test_migrate_tells_a_person_whom_to_restart(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with older_process(database_url, tmp_path) as (pid, pipe):
        assert run(["db", "migrate"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        pipe.send("write")
        pipe.recv()
    assert "use the older version and can no longer write. Restart them" in said
    assert f"{pid} on {socket.gethostname()}." in said
