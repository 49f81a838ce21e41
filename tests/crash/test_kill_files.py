"""A process that dies at any step of replacing a file leaves the old content or the new one; the next write works."""

import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from perdure.files.atomic import part_file, write_atomic
from perdure.files.folders import open_folder
from tests import children

OLD, NEW = b"old", b"new" * 100_000


async def replace(path: Path) -> None:
    write_atomic(path, NEW)


async def replace_in_open_folder(path: Path) -> None:
    folder = open_folder(path.parent)
    with part_file(path.name, name=f".{path.name}.part", folder=folder) as part:
        part.write(NEW)
        part.replace()
    os.close(folder)


async def publish(path: Path) -> None:
    with part_file(path) as part:
        part.write(NEW)
        part.publish()


@pytest.mark.parametrize("write", [replace, replace_in_open_folder])
@pytest.mark.parametrize(
    ("point", "is_new"),
    [
        ("files.write.before", False),
        ("files.fsync.before", False),
        ("files.name.before", False),
        ("files.folder.before", True),
        ("files.folder.after", True),
    ],
)
def test_a_kill_leaves_the_old_content_or_the_new_one(
    tmp_path: Path, point: str, is_new: bool, write: Callable[[Path], Coroutine[Any, Any, None]]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    children.run_until(point, write, path)
    assert path.read_bytes() == (NEW if is_new else OLD)
    assert [each.name for each in tmp_path.iterdir() if not each.name.startswith(".")] == ["file"]
    for part in tmp_path.glob(".file.part*"):
        os.utime(part, (0, 0))
    children.run(write, path)
    assert path.read_bytes() == NEW
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("point", "is_there"),
    [("files.write.before", False), ("files.name.before", False), ("files.folder.before", True)],
)
def test_a_kill_leaves_a_new_file_whole_or_not_at_all(tmp_path: Path, point: str, is_there: bool) -> None:
    path = tmp_path / "file"
    children.run_until(point, publish, path)
    assert path.exists() == is_there
    if is_there:
        assert path.read_bytes() == NEW
