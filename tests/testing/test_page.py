"""The page about tests: its example is run as it stands."""

import subprocess
import sys
from pathlib import Path

from tests.test_docs import ROOT, blocks


def test_the_example_of_the_page_passes(tmp_path: Path) -> None:
    flow, test = blocks((ROOT / "docs/how-to/test-a-flow.md").read_text(), "python")
    (tmp_path / "shop.py").write_text(flow)
    (tmp_path / "test_shop.py").write_text(test)
    options = ["-W", "error", "-o", "asyncio_default_fixture_loop_scope=function"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(tmp_path)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "3 passed" in ended.stdout
