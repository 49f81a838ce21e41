"""A home that is there already, so that a test of goals does not pay for making one."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.cli.on_terminal import Program, Start
from tests.interfaces.cli.remote import Both, serving
from tests.interfaces.cli.terminal import Terminal


@pytest.fixture
def ready(tmp_path: Path, migrated_sqlite: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder to work in, beside a home with a new database."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    shutil.copy(migrated_sqlite, home / "perdure.db")
    (home / "perdure.db").chmod(0o600)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def perdure(ready: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Commands, in that folder."""
    assert ready == Path.cwd()
    return Terminal(capsys)


@pytest.fixture
def both(perdure: Terminal, ready: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Both]:
    """Commands with a server, and with the home that it serves."""
    with serving(ready.parent / "home") as server:
        yield Both(perdure, ready.parent / "home", server.url, monkeypatch)


@pytest.fixture
def start(ready: Path) -> Iterator[Start]:
    """Start programs, and leave none behind."""
    programs: list[Program] = []

    def begin(*arguments: str, **how: Any) -> Program:
        programs.append(Program(arguments, ready.parent / f"out-{len(programs)}", **how))
        return programs[-1]

    yield begin
    for program in programs:
        program.close()
