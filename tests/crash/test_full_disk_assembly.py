"""No room while the files of a bot are written: that is unavailable, and the same call completes the bot later."""

import errno
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure import Denied, Perdure, Unavailable, failpoints
from perdure.bots.folder import BotFolder, read_texts, verify
from perdure.bots.writing import Update, remove_bot, write_bot
from perdure.interfaces.api.dependencies import BASE
from tests import children
from tests.crash.size import torture_size
from tests.forge.bots import Home, emptied, home_at, ready, ready_to_change, url_of
from tests.interfaces.api.serving import served
from tests.interfaces.api.talks import ready as ready_over_http

SCARCE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ETIMEDOUT)
POINTS = ("bots.folder.before", "bots.folder.after", "bots.file.before", "bots.file.after")


def failing(number: int) -> Callable[[], None]:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(url_of(request.param, request, tmp_path))


@pytest.fixture
async def kept_at(url: str) -> str:
    return await emptied(url)


async def is_whole(home: Home) -> None:
    """Require one bot with one version, as it was written, and nothing beside it."""
    assert [summary.slug for summary in await home.store.list_bots()] == ["ada"]
    assert len(await home.store.versions("ada")) == 1
    assert verify(home.path("ada")) == []
    assert read_texts(home.path("ada")) == (await home.store.version("ada")).files
    assert [path.name for path in home.bots_dir.rglob(".*") if path.name != ".lock"] == []


@pytest.mark.parametrize("point", POINTS)
async def test_an_assembly_without_room_is_unavailable_and_can_be_repeated(
    kept_at: str, tmp_path: Path, point: str
) -> None:
    async with home_at(tmp_path, kept_at) as home:
        with failpoints.armed(point, failing(errno.ENOSPC)), pytest.raises(Unavailable, match="No space left"):
            await home.assembler.assemble(ready())
        await home.assembler.assemble(ready())
        await is_whole(home)


@pytest.mark.parametrize("number", SCARCE, ids=errno.errorcode.__getitem__)
def test_what_runs_out_is_unavailable(tmp_path: Path, number: int) -> None:
    with failpoints.armed("bots.file.before", failing(number)), pytest.raises(Unavailable):
        write_bot(tmp_path, "ada", Update({"SOUL.md": "x"}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS], ids=errno.errorcode.__getitem__)
def test_what_is_not_allowed_is_denied(tmp_path: Path, number: int) -> None:
    with failpoints.armed("bots.file.before", failing(number)), pytest.raises(Denied):
        write_bot(tmp_path, "ada", Update({"SOUL.md": "x"}))
    (tmp_path / "ada").mkdir()
    with failpoints.armed("bots.delete.before", failing(number)), pytest.raises(Denied):
        remove_bot(tmp_path, "ada")


async def test_a_change_without_room_leaves_the_old_version_or_the_new_one(kept_at: str, tmp_path: Path) -> None:
    async with home_at(tmp_path, kept_at) as home:
        await home.assembler.assemble(ready())
        change = ready_to_change(await home.assembler.target("ada"), "s2", tone="formal")
        with failpoints.armed("bots.file.before", failing(errno.EDQUOT)), pytest.raises(Unavailable):
            await home.assembler.assemble(change)
        made = await home.assembler.assemble(change)
        assert made.version == 2
        assert verify(home.path("ada")) == []


def test_a_file_that_cannot_be_read_for_want_of_descriptors_is_unavailable(tmp_path: Path) -> None:
    write_bot(tmp_path, "ada", Update({"SOUL.md": "x"}))
    with BotFolder.open(tmp_path / "ada") as folder:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
        try:
            with pytest.raises(Unavailable, match="Too many open files"):
                folder.skills()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def assemble_without_room(folder: Path, url: str, size: int) -> None:
    """Assemble where no file may grow beyond a size, then where it may."""
    async with home_at(folder, url) as home:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            await home.assembler.assemble(ready())
        except Unavailable:
            (folder / "unavailable").touch()
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await home.assembler.assemble(ready())


@pytest.mark.torture
async def test_an_assembly_on_a_disk_that_is_really_full_is_completed_when_there_is_room(
    kept_at: str, tmp_path: Path
) -> None:
    for number in range(torture_size(small=3)):
        folder = tmp_path / f"home-{number}"
        folder.mkdir()
        await emptied(kept_at)
        children.run(assemble_without_room, folder, kept_at, number % 40 * 25)
        assert (folder / "unavailable").exists() or number % 40
        async with home_at(folder, kept_at) as home:
            await is_whole(home)


async def test_over_http_it_is_503_and_the_same_call_completes_it(tmp_path: Path, migrated_sqlite: str) -> None:
    async with served(tmp_path / "home", str(shutil.copy(migrated_sqlite, tmp_path / "perdure.db"))) as there:
        session = await ready_over_http(there.client)
        path, key = f"{BASE}/builder/sessions/{session}/assemble", {"Idempotency-Key": "k-1"}
        with failpoints.armed("bots.file.before", failing(errno.ENOSPC)):
            answer = await there.http.post(there.server.url + path, json={}, headers=key)
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        again = await there.http.post(there.server.url + path, json={}, headers=key)
        assert again.status_code in (200, 201)
        assert len(list(await there.p.bots.list())) == 1


async def test_a_skill_without_room_is_unavailable_and_can_be_made_later(tmp_path: Path) -> None:
    asked = {"description": "Convert amounts between currencies"}
    async with Perdure.open(tmp_path / "home") as p:
        with failpoints.armed("bots.file.before", failing(errno.ENOSPC)), pytest.raises(Unavailable):
            await p.skills.create(asked)
        made = await p.skills.create(asked)
        assert made.skill.name in [view.skill.name for view in await p.skills.list()]
