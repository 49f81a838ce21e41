"""Fixtures of the tools' tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.tools.exec.exec import ExecTool
from tests.tools.calls import Fifo, exec_tool


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """The goal's folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Where it is noted who runs; made by the tool."""
    return tmp_path / "home" / "run"


@pytest.fixture
def tool(run_dir: Path) -> ExecTool:
    """The tool `exec`, which kills soon."""
    return exec_tool(run_dir)


@pytest.fixture
def told(workdir: Path) -> Iterator[Fifo]:
    """What programs write to `pid` in the goal's folder."""
    fifo = Fifo(workdir / "pid")
    yield fifo
    fifo.close()


@pytest.fixture
def gate(workdir: Path) -> Iterator[Fifo]:
    """What programs wait for when they read `gate` in the goal's folder."""
    fifo = Fifo(workdir / "gate")
    yield fifo
    fifo.close()
