"""A command that may open too few files is unavailable, and names the limit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIMITED = 'ulimit -n "$1"; exec "$2" -m perdure goal list'


@pytest.mark.parametrize("limit", [8, 10, 12, 13])
def test_a_command_without_descriptors_is_unavailable_and_names_the_limit(tmp_path: Path, limit: int) -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", LIMITED, "sh", str(limit), sys.executable],
        env={**os.environ, "PERDURE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode == 0:
        return  # the limit is enough on this system
    assert ended.returncode == 8, ended.stderr
    assert "`ulimit -n`" in ended.stderr
