"""Drafts that the version before wrote: each can be read, shown, answered and built."""

import json
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.app.builder.sessions import SessionView
from perdure.forge.drafts import encode_draft
from perdure.forge.state import read_state
from perdure.forge.turns import AskQuestion, ReadyToAssemble, ShowPreview
from perdure.store.builder.drafts import SqlBuilderDraftStore

EARLIER: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("earlier_drafts.json").read_text())
NEW_BOTS = [name for name in EARLIER if name != "change"]


async def kept(p: Perdure, name: str) -> SessionView:
    """Put a draft into the database as it was written, and open it."""
    draft = encode_draft(read_state(json.dumps(EARLIER[name])))
    store = SqlBuilderDraftStore(p.database)
    as_written = type(draft)(**{**vars_of(draft), "state_json": json.dumps(EARLIER[name])})
    await store.save_draft(as_written, 0)
    return await p.forge.get(draft.session_id)


def vars_of(draft: Any) -> dict[str, Any]:
    return {name: getattr(draft, name) for name in draft.__slots__}


async def to_the_end(p: Perdure, session: SessionView) -> SessionView:
    for _ in range(20):
        match session.turn:
            case ReadyToAssemble():
                return session
            case ShowPreview():
                answer: dict[str, Any] = {"confirm": True}
            case _:
                answer = {"option_index": 0}
        session = await p.forge.answer(session.session_id, answer, session.revision)
    pytest.fail("it never ends")


@pytest.mark.parametrize("name", EARLIER)
async def test_a_draft_is_shown_as_it_was_with_its_conversation_and_the_whole_preview(
    database_url: str, tmp_path: Path, name: str
) -> None:
    async with Perdure.open(tmp_path / "home", database_url=database_url) as p:
        session = await kept(p, name)
        wire, written = session.wire(), EARLIER[name]
        assert session.revision == 1
        for key in ("action", "question", "options"):
            assert wire["turn"].get(key) == written["pending_turn"].get(key)
        assert [each["answer"] for each in wire["conversation"]] == [each["answer"] for each in written["conversation"]]
        assert wire["preview"]["description"]
        if isinstance(session.turn, AskQuestion | ReadyToAssemble):
            assert wire["turn"]["preview"] == wire["preview"]


@pytest.mark.parametrize("name", NEW_BOTS)
async def test_a_draft_is_answered_and_built(database_url: str, tmp_path: Path, name: str) -> None:
    async with Perdure.open(tmp_path / "home", database_url=database_url) as p:
        session = await to_the_end(p, await kept(p, name))
        result = await p.forge.assemble(session.session_id)
        bot = await p.bots.get(result.bot_slug)
        assert bot.soul.purpose


async def test_no_to_an_earlier_preview_asks_its_part_again(database_url: str, tmp_path: Path) -> None:
    async with Perdure.open(tmp_path / "home", database_url=database_url) as p:
        session = await kept(p, "preview")
        assert isinstance(session.turn, ShowPreview)
        again = await p.forge.answer(session.session_id, {"confirm": False})
        assert isinstance(again.turn, AskQuestion)
        assert again.conversation == ()


async def test_an_earlier_change_of_a_bot_comes_to_its_end(database_url: str, tmp_path: Path) -> None:
    async with Perdure.open(tmp_path / "home", database_url=database_url) as p:
        session = await kept(p, "change")
        changed = await p.forge.answer(session.session_id, {"free_text": "warm"})
        end = await to_the_end(p, changed)
        assert isinstance(end.turn, ReadyToAssemble)
        assert end.turn.config.personality.tone == "warm"
        assert end.turn.config.name == "Ada"
