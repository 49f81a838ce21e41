"""Two at the same session or the same bot: nothing that was acknowledged is lost, and nobody sees half a bot."""

import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, NotFound, Perdure, failpoints
from perdure.app.builder.sessions import SessionView
from perdure.forge.ports import BotVersion
from perdure.forge.turns import AskQuestion, ReadyToAssemble
from tests import children
from tests.crash.test_assembly import Place, change, change_until
from tests.crash.test_assembly import assemble as assemble_ada
from tests.forge.bot_store import FileBotStore
from tests.forge.bots import Home, home_in

WISH = "a coding assistant that reviews Python"
Rival = Callable[[Path, str, str], Coroutine[Any, Any, None]]


async def go_back(home: Path, url: str, session_id: str) -> None:
    """Do not confirm, but answer that the personality is to be asked for again; it is acknowledged."""
    async with Perdure.open(home, database_url=url) as p:
        await p.forge.answer(session_id, {"back": "personality"})


async def delete(home: Path, url: str, session_id: str) -> None:
    async with Perdure.open(home, database_url=url) as p:
        await p.forge.delete(session_id)


async def assemble(home: Path, url: str, session_id: str) -> None:
    async with Perdure.open(home, database_url=url) as p:
        await p.forge.assemble(session_id)


async def ready(p: Perdure, session: SessionView) -> SessionView:
    while not isinstance(session.turn, ReadyToAssemble):
        is_asked = isinstance(session.turn, AskQuestion)
        session = await p.forge.answer(session.session_id, {"option_index": 0} if is_asked else {"confirm": True})
    return session


async def assembled_beside(rival: Rival, p: Perdure, home: Path, url: str, session_id: str) -> None:
    """Assemble, while somebody else does something between our look at the draft and our transaction."""

    def meanwhile() -> None:
        children.run(rival, home, url, session_id)

    with failpoints.armed("forge.version.before", meanwhile):
        await p.forge.assemble(session_id)


@pytest.mark.parametrize("is_change", [False, True])
async def test_an_answer_that_is_acknowledged_while_a_bot_is_assembled_is_not_lost(
    database_url: str, tmp_path: Path, is_change: bool
) -> None:
    home = tmp_path / "home"
    async with Perdure.open(home, database_url=database_url) as p:
        session = await ready(p, await p.forge.start(WISH))
        if is_change:
            slug = (await p.forge.assemble(session.session_id)).bot_slug
            session = await ready(p, await p.forge.reconfigure(slug, description="make it friendlier"))
        before = [(bot.summary.slug, bot.summary.version) for bot in await p.bots.list()]
        with pytest.raises(Conflict, match="while it was assembled"):
            await assembled_beside(go_back, p, home, database_url, session.session_id)
        kept = await p.forge.get(session.session_id)
        assert (str(kept.phase), kept.revision) == ("personality", session.revision + 1)
        assert [(bot.summary.slug, bot.summary.version) for bot in await p.bots.list()] == before
        again = await ready(p, kept)
        assert (await p.forge.assemble(again.session_id)).version == 1 + is_change


async def test_a_draft_that_is_deleted_while_a_bot_is_assembled_makes_none(database_url: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with Perdure.open(home, database_url=database_url) as p:
        session = await ready(p, await p.forge.start(WISH))
        with pytest.raises(Conflict):
            await assembled_beside(delete, p, home, database_url, session.session_id)
        assert await p.bots.list() == []


async def test_a_session_that_is_assembled_twice_at_once_makes_one_bot(database_url: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with Perdure.open(home, database_url=database_url) as p:
        session = await ready(p, await p.forge.start(WISH))
        await assembled_beside(assemble, p, home, database_url, session.session_id)
        assert [bot.summary.version for bot in await p.bots.list()] == [1]


class Interrupted(FileBotStore):
    """A store in which something happens once, right after somebody has learnt the newest version."""

    meanwhile: Callable[[], object] | None = None

    async def version(self, slug: str, number: int | None = None) -> BotVersion:
        found = await super().version(slug, number)
        if number is not None:
            return found
        job, self.meanwhile = self.meanwhile, None
        if job is not None:
            job()
        return found


def looking_while(folder: Path, job: Callable[[], object]) -> Home:
    """Return a home in which something happens between the look into the store and the look at the disk."""
    store = Interrupted(folder / "store.json")
    store.meanwhile = job
    return home_in(folder, store)


@pytest.mark.parametrize("count", range(1, 8))
async def test_no_reader_sees_a_bot_that_is_half_changed(tmp_path: Path, count: int) -> None:
    place = Place(tmp_path, None)
    await assemble_ada(place)
    looks: list[Callable[[Home], Coroutine[Any, Any, object]]] = [
        lambda home: home.assembler.open_bot("ada"),
        lambda home: home.assembler.verify("ada"),
        lambda home: home.assembler.export_bot("ada"),
        lambda home: home.assembler.edits("ada"),
    ]

    def half_changed() -> None:
        children.end_of(children.start(change_until, place, count))

    async with place.home() as home:
        for look in looks:
            seen = await look(looking_while(tmp_path, half_changed))
            assert seen == await look(home)
            await home.assembler.rollback("ada", 1)


async def test_a_session_to_change_a_bot_begins_with_one_version_of_it(tmp_path: Path) -> None:
    place = Place(tmp_path, None)
    await assemble_ada(place)
    target = await looking_while(tmp_path, lambda: children.run(change, place)).assembler.target("ada")
    assert (target.version, target.config["personality"]["tone"]) == (2, "formal")


async def test_a_bot_that_is_deleted_while_it_is_read_is_not_there(tmp_path: Path) -> None:
    place = Place(tmp_path, None)
    await assemble_ada(place)
    home = looking_while(tmp_path, lambda: children.run(delete_ada, place))
    with pytest.raises(NotFound, match="no bot ada"):
        await home.assembler.open_bot("ada")


async def delete_ada(place: Place) -> None:
    async with place.home() as home:
        await home.assembler.delete("ada")


async def test_a_folder_that_was_removed_is_named_with_the_way_to_have_it_again(tmp_path: Path) -> None:
    home = home_in(tmp_path)
    await assemble_ada(Place(tmp_path, None))
    before = await home.assembler.open_bot("ada")
    shutil.rmtree(home.path("ada"))
    for look in (home.assembler.open_bot, home.assembler.verify, home.assembler.target):
        with pytest.raises(NotFound, match="`perdure bot rollback ada 1` writes it again"):
            await look("ada")
    await home.assembler.rollback("ada", 1)
    assert await home.assembler.open_bot("ada") == before
