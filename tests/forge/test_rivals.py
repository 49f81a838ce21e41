"""Two at the same session or the same bot: nothing that was acknowledged is lost, and nobody sees half a bot."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, Perdure, failpoints
from perdure.app.forge import SessionView
from perdure.forge.turns import AskQuestion, ReadyToAssemble
from tests import children

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
            session = await ready(p, await p.forge.reconfigure(slug))
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
