"""Kill -9, and an error, at every step of assembly: nothing is there, or a version that the next call completes."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, NotFound, failpoints
from perdure.bots.folder import read_texts, verify
from tests import children
from tests.forge.bots import Home, emptied, home_at, home_in, ready, ready_to_change, url_of

ASSEMBLY = (
    *("forge.version.before", "forge.version.after", "forge.current.before", "forge.current.after"),
    *("bots.folder.before", "bots.folder.after", "bots.file.before", "bots.file.after"),
)
CHANGE = (
    *("forge.version.before", "forge.version.after", "forge.current.before", "forge.current.after"),
    *("bots.file.before", "bots.file.after", "bots.remove.before", "bots.remove.after"),
)
ROLLBACK = (*CHANGE, "bots.aside.before", "bots.aside.after")
DELETION = ("forge.delete.before", "forge.delete.after", "bots.delete.before", "bots.delete.after")


@dataclass(frozen=True)
class Place:
    """A home, and where its bots are kept: in a database, or in the test's own store."""

    folder: Path
    url: str | None

    def home(self) -> AbstractAsyncContextManager[Home]:
        return home_at(self.folder, self.url)


async def assemble(place: Place) -> None:
    async with place.home() as home:
        await home.assembler.assemble(ready(session_id="s"))


async def change(place: Place) -> None:
    async with place.home() as home:
        target = await home.assembler.target("ada")
        state = ready_to_change(target, "changing", tone="formal", skills="summarize", variety="0.9")
        await home.assembler.assemble(state)


async def roll_back(place: Place) -> None:
    async with place.home() as home:
        await home.assembler.rollback("ada", 1)


async def delete(place: Place) -> None:
    async with place.home() as home:
        await home.assembler.delete("ada")


class Failure(Exception):
    """What goes wrong at a fail-point."""


def fail() -> None:
    raise Failure


Job = Callable[[Place], Coroutine[Any, Any, None]]
Way = Callable[[str, Job, Place], Awaitable[None]]


async def raised_at(point: str, job: Job, place: Place) -> None:
    with failpoints.armed(point, fail), pytest.raises(Failure):
        await job(place)


async def killed_at(point: str, job: Job, place: Place) -> None:
    await asyncio.to_thread(children.run_until, point, job, place)


@pytest.fixture(params=["raised, file", "killed, sqlite", "killed, postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
async def ended(url: str | None, tmp_path: Path) -> AsyncIterator[tuple[Way, Place, Home]]:
    """A way to end, and a home in which to."""
    place = Place(tmp_path, url and await emptied(url))
    async with place.home() as home:
        yield raised_at if url is None else killed_at, place, home


async def opened(home: Home) -> list[str]:
    """Open every bot that is listed; each must be well, and as its version says."""
    slugs = [summary.slug for summary in await home.store.list_bots()]
    for slug in slugs:
        await home.assembler.open_bot(slug)
        assert verify(home.path(slug)) == []
        assert (await home.store.version(slug)).state == "current"
    return slugs


def left_over(home: Home) -> list[str]:
    return (
        sorted(path.name for path in home.bots_dir.rglob(".*") if path.name != ".lock")
        if home.bots_dir.exists()
        else []
    )


@pytest.mark.parametrize("point", ASSEMBLY)
async def test_an_assembly_that_ends_anywhere_leaves_nothing_or_what_the_next_call_completes(
    ended: tuple[Way, Place, Home], point: str
) -> None:
    end, place, home = ended
    await end(point, assemble, place)
    assert await opened(home) == ([] if point == "forge.version.before" else ["ada"])
    await assemble(place)
    assert await opened(home) == ["ada"]
    assert len(await home.store.versions("ada")) == 1
    assert read_texts(home.path("ada")) == (await home.store.version("ada")).files
    assert left_over(home) == []


@pytest.mark.parametrize("point", ASSEMBLY)
async def test_the_same_call_completes_an_assembly(ended: tuple[Way, Place, Home], point: str) -> None:
    end, place, home = ended
    await end(point, assemble, place)
    await assemble(place)
    assert await opened(home) == ["ada"]


@pytest.mark.parametrize("point", CHANGE)
async def test_a_change_that_ends_anywhere_leaves_the_old_bot_or_the_new_one_and_every_edit(
    ended: tuple[Way, Place, Home], point: str
) -> None:
    end, place, home = ended
    await assemble(place)
    home.edit("ada/SOUL.md", "## Purpose\n", "## Purpose\n\nAlso water the plants.\n")
    await end(point, change, place)
    home.edit("ada/USER.md", "They asked for you", "I am Kim. I asked for you")
    assert await opened(home) == ["ada"]
    bot = await home.assembler.open_bot("ada")
    is_new = point != "forge.version.before"
    assert (bot.soul.tone, bot.model_settings.temperature) == (("formal", 0.9) if is_new else ("technical", 0.2))
    assert [skill.name for skill in bot.skills] == (["summarize"] if is_new else ["code-review", "code-generation"])
    assert "Also water the plants." in bot.soul.purpose
    assert "I am Kim." in bot.user
    assert {path.name for path in home.path("ada/skills").iterdir()} == {skill.name for skill in bot.skills}
    assert (await home.store.version("ada")).number == 1 + is_new
    assert left_over(home) == []


@pytest.mark.parametrize("point", ROLLBACK)
async def test_a_rollback_that_ends_anywhere_leaves_the_newer_bot_or_the_older_one_and_every_edit(
    ended: tuple[Way, Place, Home], point: str
) -> None:
    end, place, home = ended
    await assemble(place)
    before = read_texts(home.path("ada"))
    await change(place)
    home.edit("ada/SOUL.md", "## Purpose\n", "## Purpose\n\nAlso water the plants.\n")
    await end(point, roll_back, place)
    assert await opened(home) == ["ada"]
    is_old = point != "forge.version.before"
    assert (read_texts(home.path("ada")) == before) is is_old
    edited = home.path("ada/SOUL.md.old" if is_old else "ada/SOUL.md").read_text()
    assert "Also water the plants." in edited
    assert (await home.store.version("ada")).number == 2 + is_old
    assert left_over(home) == []


@pytest.mark.parametrize("point", ROLLBACK)
async def test_a_rollback_that_ends_anywhere_keeps_an_edit_made_between_two_versions(
    ended: tuple[Way, Place, Home], point: str
) -> None:
    end, place, home = ended
    await assemble(place)
    before = read_texts(home.path("ada"))
    home.edit("ada/SOUL.md", "## Purpose\n", "## Purpose\n\nAlso water the plants.\n")
    await change(place)
    await end(point, roll_back, place)
    assert await opened(home) == ["ada"]
    is_old = point != "forge.version.before"
    assert (read_texts(home.path("ada")) == before) is is_old
    assert "Also water the plants." in home.path("ada/SOUL.md.old" if is_old else "ada/SOUL.md").read_text()
    assert sorted(path.name for path in home.path("ada").glob("*.old*")) == (["SOUL.md.old"] if is_old else [])
    assert left_over(home) == []


@pytest.mark.parametrize("point", DELETION)
async def test_a_deletion_that_ends_anywhere_leaves_a_bot_that_opens_or_is_gone(
    ended: tuple[Way, Place, Home], point: str
) -> None:
    end, place, home = ended
    await assemble(place)
    await end(point, delete, place)
    assert await opened(home) == (["ada"] if point == "forge.delete.before" else [])
    try:
        await delete(place)
    except NotFound:
        assert point == "bots.delete.after"
    assert await opened(home) == []
    assert [path.name for path in home.bots_dir.iterdir()] == [".lock"]


async def delete_first_version(place: Place) -> None:
    async with place.home() as home:
        await home.assembler.delete("ada", "1")


@pytest.mark.parametrize("point", DELETION)
async def test_a_deletion_of_what_was_seen_that_ends_anywhere_is_completed_by_the_same_call(
    ended: tuple[Way, Place, Home], point: str
) -> None:
    end, place, home = ended
    await assemble(place)
    await end(point, delete_first_version, place)
    try:
        await delete_first_version(place)
    except NotFound:
        assert point == "bots.delete.after"
    assert await opened(home) == []
    assert [path.name for path in home.bots_dir.iterdir()] == [".lock"]


@pytest.mark.parametrize("point", ASSEMBLY[1:])
async def test_a_bot_whose_assembly_ended_anywhere_is_deleted_as_the_version_that_it_is(
    ended: tuple[Way, Place, Home], point: str
) -> None:
    end, place, home = ended
    await end(point, assemble, place)
    with pytest.raises(Conflict, match="was changed meanwhile"):
        await home.assembler.delete("ada", "2")
    await home.assembler.delete("ada", "1")
    assert [path.name for path in home.bots_dir.iterdir()] == [".lock"]


async def build_another(place: Place) -> None:
    async with place.home() as home:
        await home.build("a timer for pasta", "another")


@pytest.mark.parametrize(
    ("point", "job", "then"),
    [
        ("bots.folder.before", assemble, delete),
        ("bots.file.after", assemble, delete),
        ("bots.delete.after", delete, build_another),
    ],
)
async def test_what_a_writer_who_died_has_left_is_removed_by_the_next_one(
    tmp_path: Path, point: str, job: Job, then: Job
) -> None:
    place = Place(tmp_path, None)
    if job is delete:
        await assemble(place)
    await killed_at(point, job, place)
    async with place.home() as home:
        assert left_over(home) != []
        home.path(".mine").mkdir()
        await then(place)
        assert left_over(home) == [".mine"]


@pytest.mark.parametrize("count", range(1, 7))
async def test_a_kill_after_any_file_of_a_change_is_completed(tmp_path: Path, count: int) -> None:
    place, home = Place(tmp_path, None), home_in(tmp_path)
    await assemble(place)
    home.edit("ada/SOUL.md", "---\nname", "---\n# mine\nname")
    child = children.start(change_until, place, count)
    code = children.end_of(child)
    assert code in (0, -signal.SIGKILL)
    assert await opened(home) == ["ada"]
    bot = await home.assembler.open_bot("ada")
    assert (bot.soul.tone, bot.model_settings.temperature) == ("formal", 0.9)
    assert home.path("ada/SOUL.md").read_text().startswith("---\n# mine\nname")


async def change_until(place: Place, count: int) -> None:
    """Change a bot, and be killed before so many files are in place."""
    written = 0

    def kill() -> None:
        nonlocal written
        written += 1
        if written == count:
            os.kill(os.getpid(), signal.SIGKILL)

    with failpoints.armed("bots.file.before", kill):
        await change(place)


async def test_processes_that_assemble_one_session_at_once_make_one_bot(tmp_path: Path, migrated_sqlite: str) -> None:
    place = Place(tmp_path, str(shutil.copy(migrated_sqlite, tmp_path / "perdure.db")))
    processes = [children.start(assemble, place) for _ in range(4)]
    assert [children.end_of(process) for process in processes] == [0] * 4
    async with place.home() as home:
        assert await opened(home) == ["ada"]
        assert sorted(path.name for path in home.bots_dir.iterdir()) == [".lock", "ada"]
