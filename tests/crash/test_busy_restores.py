"""Restores beside busy writers of the memory and of the skills: all succeed, and nothing acknowledged is lost."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from perdure import read_records
from perdure.app.builder.skills import open_skills
from perdure.app.home.backup import back_up, restore_backup
from perdure.errors import Conflict, PerdureError
from perdure.memory.memory import Memory
from perdure.settings import Settings
from tests import children
from tests.crash.goals import rest_of
from tests.crash.size import torture_size
from tests.crash.test_rivals import until
from tests.postgres import PostgresServer
from tests.store.test_restore import fill, settings_of

WRITERS = 4
ENOUGH = "enough"
DONE = "restores"
"""The file in which the test says how many restores have returned."""


def done_in(folder: Path) -> int:
    return (folder / DONE).stat().st_size


async def write_on(settings: Settings, folder: Path, name: str, pipe: Connection) -> None:
    """Add records, and tell of each when it is stored: its id, and how many restores had returned before it began."""
    memory = Memory(settings.memory_state_dir)
    number = 0
    try:
        while not (folder / ENOUGH).exists():
            number += 1
            done = done_in(folder)
            added = memory.add({"id": f"{name}-{number}", "type": "lesson", "title": f"{name} {number}"}, dedupe=False)
            pipe.send((added["id"], done))
    finally:
        memory.close()


async def rewrite_on(settings: Settings, folder: Path, pipe: Connection) -> None:
    """Rewrite the log and its index; that a restore comes between is told, and changes nothing."""
    memory = Memory(settings.memory_state_dir)
    try:
        while not (folder / ENOUGH).exists():
            try:
                memory.compact()
                memory.search("lesson")
            except Conflict:
                continue
            except PerdureError as error:
                pipe.send(error)
    finally:
        memory.close()


async def make_skills(settings: Settings, folder: Path, pipe: Connection) -> None:
    skills, number = open_skills(settings), 0
    while not (folder / ENOUGH).exists():
        number += 1
        done = done_in(folder)
        await skills.create({"name": f"skill-{number}", "description": "Tries it."})
        pipe.send((f"skill-{number}", done))


def take_down(pipe: Connection, news: list[Any]) -> None:
    for each in rest_of(pipe):
        news.append(each)  # noqa: PERF402 (others look at it meanwhile)


@contextmanager
def busy(settings: Settings, folder: Path) -> Iterator[list[list[Any]]]:
    """Let all of them write inside the block; afterwards there is for each what it told."""
    (folder / DONE).touch()
    jobs: list[Any] = [(write_on, f"w{number}") for number in range(WRITERS)] + [(rewrite_on,), (make_skills,)]
    started: list[tuple[ForkServerProcess, Connection]] = []
    for job, *arguments in jobs:
        ours, theirs = children.context().Pipe(duplex=False)
        started.append((children.start(job, settings, folder, *arguments, theirs), ours))
        theirs.close()
    told: list[list[Any]] = [[] for _ in started]
    readers = [
        threading.Thread(target=take_down, args=(pipe, news)) for news, (_, pipe) in zip(told, started, strict=True)
    ]
    for reader in readers:
        reader.start()
    try:
        until(lambda: all(told[:WRITERS]) and bool(told[-1]))
        yield told
    finally:
        (folder / ENOUGH).touch()
        for reader in readers:
            reader.join()
    assert [children.end_of(process) for process, _ in started] == [0] * len(started)


async def restore_again_and_again(settings: Settings, tmp_path: Path, times: int) -> None:
    archive, folder = tmp_path / "backup.tar.gz", tmp_path / "told"
    folder.mkdir()
    await fill(settings, "old")
    (settings.memory_state_dir / "memory.jsonl").write_text("")
    await back_up(settings, archive)
    with busy(settings, folder) as told:
        for _ in range(times):
            await restore_backup(settings, archive, replace=True)
            with (folder / DONE).open("a") as file:
                file.write(".")
    *written, rewritten, skills = told
    assert rewritten == []
    places = [settings.memory_state_dir, *settings.memory_state_dir.parent.glob("state.replaced-*")]
    stored = [{record["id"] for record in read_records(place / "memory.jsonl")} for place in places]
    for name, done in (each for news in written for each in news):
        assert any(name in each for each in stored), f"{name} was acknowledged and is gone"
        assert done < times or name in stored[0], f"{name} was acknowledged after the last restore and is not there"
    for place in places:
        memory = Memory(place)
        assert memory.verify()["bad_lines"] == 0
        memory.close()
    for name, done in skills:
        assert done < times or (settings.skills_dir / name / "SKILL.md").exists()


@pytest.mark.torture
async def test_restores_beside_busy_writers_succeed_and_lose_nothing(tmp_path: Path) -> None:
    await restore_again_and_again(settings_of(tmp_path / "home"), tmp_path, torture_size(small=6))


async def test_a_restore_of_postgresql_keeps_writers_of_the_memory_out_too(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(postgres.programs), prepend=":")
    await restore_again_and_again(settings_of(tmp_path / "home", postgres.new_database("busy")), tmp_path, 2)


@pytest.mark.parametrize("point", ["store.restore.swap.before", "store.restore.swap.between"])
async def test_a_restore_that_was_killed_is_finished_beside_busy_writers(tmp_path: Path, point: str) -> None:
    """The memory is away when the process dies; a writer makes it anew, and finishing moves that aside."""
    settings = settings_of(tmp_path / "home")
    await fill(settings, "old")
    await back_up(settings, tmp_path / "backup.tar.gz")
    (tmp_path / "told").mkdir()
    with busy(settings, tmp_path / "told"):
        children.run_until(point, restore_home, settings.home, tmp_path / "backup.tar.gz")
        for _ in range(2):
            await restore_backup(settings, tmp_path / "backup.tar.gz", replace=True)


async def restore_home(home: Path, archive: Path) -> None:
    await restore_backup(settings_of(home), archive, replace=True)
