"""Fixtures of the tools' tests."""

from pathlib import Path

import pytest

from perdure.tools.exec import ExecTool


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
    return ExecTool(run_dir, kill_after_s=0.2)
