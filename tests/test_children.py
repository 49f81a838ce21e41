"""Children that tests fork from a warm parent."""

import sys
from pathlib import Path

import pytest

from tests import children


async def is_warm(folder: str) -> None:
    assert "tests.warm" in sys.modules
    assert str(Path.cwd()) == folder


def test_a_child_is_forked_from_a_parent_that_has_imported_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where its modules are not found, if this test is the first that makes a child
    children.run(is_warm, str(tmp_path))
