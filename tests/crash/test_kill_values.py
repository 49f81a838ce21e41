"""Values of every type over a kill, in interpreters with other hash seeds."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(home: Path, url: str, killed_at: int) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tests.crash.typed_flow", str(home), url, str(killed_at)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(killed_at + 1)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("killed_at", [2])
def test_typed_values_come_back_equal_after_a_kill_and_under_another_hash_seed(
    database_url: str, tmp_path: Path, killed_at: int
) -> None:
    home = tmp_path / "home"
    assert run(home, database_url, killed_at).returncode == -signal.SIGKILL
    ended = run(home, database_url, 0)
    assert (ended.stdout, ended.returncode) == ("equal\n", 0), ended.stderr
    again = run(home, database_url, 0)
    assert (again.stdout, again.returncode) == ("equal\n", 0), again.stderr
    assert (home / "log").read_text() in ("..", "...")
