"""A disk that takes no more: what was acknowledged stays, what was not is told, and work goes on when there is room."""

import resource
from pathlib import Path

import pytest

from perdure import DatabaseClient, PerdureError, Unavailable
from tests import children
from tests.rows import new_project, project_names

LARGE = "x" * 20_000


async def fill_up(path: Path) -> None:
    """Write until the files may not grow any more, then make room and write again."""
    async with await DatabaseClient.create(path) as db:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
        acknowledged = []
        with pytest.raises(Unavailable):
            for i in range(1000):
                name = await db.transaction(new_project(f"{i:04d}-{LARGE}"))
                acknowledged.append(name)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert acknowledged
        assert set(acknowledged) <= set(await db.read(project_names))
        await db.transaction(new_project("room again"))
    (path.parent / "acknowledged").write_text("\n".join(acknowledged))


async def test_nothing_acknowledged_is_lost_when_the_disk_is_full(sqlite_path: Path) -> None:
    children.run(fill_up, sqlite_path)
    acknowledged = (sqlite_path.parent / "acknowledged").read_text().splitlines()
    async with await DatabaseClient.create(sqlite_path) as db:
        assert await db.verify() == []
        assert {*acknowledged, "room again"} <= set(await db.read(project_names))


async def back_up_without_room(path: Path, target: Path) -> None:
    async with await DatabaseClient.create(path) as db:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        with pytest.raises(PerdureError):
            await db.backup(target)


async def test_a_backup_without_room_leaves_nothing(sqlite_path: Path, tmp_path: Path) -> None:
    target = tmp_path / "copies" / "copy.db"
    target.parent.mkdir()
    async with await DatabaseClient.create(sqlite_path) as db:
        await db.transaction(new_project("a"))
    children.run(back_up_without_room, sqlite_path, target)
    assert list(target.parent.iterdir()) == []
