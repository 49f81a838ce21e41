"""Forge through the typed client, by requests and by the chat, on both databases: one draft, whoever speaks to it."""

import asyncio
import uuid
from pathlib import Path

import pytest

from perdure.client import Client
from perdure.errors import Conflict, Denied, Invalid, NotFound, Unavailable
from perdure.interfaces.api.connections import CloseCode
from tests.interfaces.api.serving import Served, served
from tests.interfaces.api.talks import ASKING, FIRST, answer_to, built, finished, ready


async def test_an_interview_by_requests_ends_with_a_bot(there: Served) -> None:
    builder = there.client.builder
    session = await builder.start(ASKING)
    found = await builder.get(session["session_id"])
    assert (found["turn"], found["revision"], found["initial_description"]) == (session["turn"], 1, ASKING)
    after = await builder.answer(session["session_id"], FIRST, revision=1)
    assert after["state_summary"]["question_count"] == 1
    with pytest.raises(Conflict, match="not ready"):
        await builder.assemble(session["session_id"])
    await finished(there.client, session["session_id"], after["turn"])
    result = await builder.assemble(session["session_id"])
    assert (result["bot_slug"], result["bot_name"]) == ("coding-assistant", "Coding Assistant")
    assert await builder.assemble(session["session_id"]) == result, "a second call builds nothing"
    with pytest.raises(NotFound, match="has ended: it made version 1"):
        await builder.get(session["session_id"])


async def test_an_answer_to_what_was_not_seen_is_a_conflict_with_the_present_state(there: Served) -> None:
    builder = there.client.builder
    session = await builder.start(ASKING)
    after = await builder.answer(session["session_id"], FIRST, revision=1)
    with pytest.raises(Conflict) as caught:
        await builder.answer(session["session_id"], FIRST, revision=1)
    assert caught.value.current is not None
    assert (caught.value.current["turn"], caught.value.current["revision"]) == (after["turn"], 2)
    with pytest.raises(Invalid):
        await builder.answer(session["session_id"], {"option_index": 99})


async def test_calls_with_a_key_are_done_once(there: Served) -> None:
    builder = there.client.builder
    begun = await asyncio.gather(*(builder.start(ASKING, key=f"start-{id(there)}") for _ in range(4)))
    assert len({session["session_id"] for session in begun}) == 1
    session_id = begun[0]["session_id"]
    answers = await asyncio.gather(*(builder.answer(session_id, FIRST, key=f"answer-{id(there)}") for _ in range(4)))
    assert [answer["state_summary"]["question_count"] for answer in answers] == [1] * 4
    with pytest.raises(Conflict, match="start-"):
        await builder.start("something else", key=f"start-{id(there)}")
    assert [draft["session_id"] async for draft in builder.drafts()] == [session_id]


async def test_drafts_are_given_page_by_page_and_are_gone_when_deleted(there: Served) -> None:
    builder = there.client.builder
    ids = [(await builder.start(ASKING))["session_id"] for _ in range(3)]
    assert [draft["session_id"] async for draft in builder.drafts(limit=1)] == ids[::-1]
    await builder.delete(ids[1])
    assert [draft["session_id"] async for draft in builder.drafts()] == [ids[2], ids[0]]
    for unknown in (ids[1], "nothing", "../drafts"):
        with pytest.raises(NotFound):
            await builder.delete(unknown)


async def test_a_bot_is_changed_under_a_session_of_its_own(there: Served) -> None:
    await built(there.client)
    builder, mine = there.client.builder, str(uuid.uuid4())
    session = await builder.reconfigure("ada", mine)
    assert (session["session_id"], session["mode"]) == (mine, "reconfigure")
    with pytest.raises(Conflict):
        await builder.reconfigure("ada", mine)
    with pytest.raises(NotFound):
        await builder.reconfigure("nobody")
    await builder.answer(mine, {"free_text": "name"})
    await builder.answer(mine, {"option_index": 0})
    same = await builder.assemble(mine)
    assert (same["bot_slug"], same["version"], same["changed"]) == ("ada", 1, False)
    assert await builder.assemble(mine) == same
    await builder.answer(mine, {"back": "basics"})
    await builder.answer(mine, {"free_text": "name"})
    await builder.answer(mine, {"free_text": "Eve"})
    result = await builder.assemble(mine)
    assert (result["bot_slug"], result["version"], result["changed"]) == ("ada", 2, True)


async def test_an_interview_by_chat_ends_with_a_bot(there: Served) -> None:
    session_id = str(uuid.uuid4())
    async with there.client.builder.chat(session_id) as chat:
        with pytest.raises(NotFound):
            await chat.resume()
        turn = await chat.start(ASKING)
        assert (chat.turn, chat.revision) == (turn, 1)
        with pytest.raises(Conflict) as caught:
            await chat.start(ASKING)
        assert caught.value.current == {"turn": turn, "revision": 1}
        with pytest.raises(Invalid):
            await chat.answer({"option_index": 99})
        while turn["action"] != "ready_to_assemble":
            turn = await chat.answer(answer_to(turn))
        result = await chat.assemble()
    assert (await there.client.bots.get(result["bot_slug"]))["version"] == 1


async def test_a_chat_that_breaks_off_continues_where_it_was(there: Served) -> None:
    session_id = str(uuid.uuid4())
    async with there.client.builder.chat(session_id) as chat:
        await chat.start(ASKING)
        turn = await chat.answer(FIRST)
    async with there.client.builder.chat(session_id) as chat:
        assert await chat.resume() == turn
        assert chat.revision == 2


async def test_of_two_who_answer_one_turn_one_learns_of_the_other(there: Served) -> None:
    session_id = (await there.client.builder.start(ASKING))["session_id"]
    chats = there.client.builder
    async with chats.chat(session_id) as one, chats.chat(session_id) as two:
        assert await one.resume() == await two.resume()
        after = await one.answer(FIRST)
        with pytest.raises(Conflict) as caught:
            await two.answer(FIRST)
        assert caught.value.current == {"turn": after, "revision": 2}
        assert (two.turn, two.revision) == (after, 2)
        await two.answer(answer_to(after))
        assert two.revision == 3


async def test_a_chat_without_a_session_a_token_or_a_server_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path / "home", str(tmp_path / "perdure.db")) as found:
        for wrong in ("nothing", ".."):
            with pytest.raises(NotFound):
                async with found.client.builder.chat(wrong):
                    pass
        async with Client(found.server.url, "wrong") as stranger:
            with pytest.raises(Denied):
                async with stranger.builder.chat(str(uuid.uuid4())):
                    pass
        gone = Client(found.server.url, "any")
    with pytest.raises(Unavailable):
        async with gone.builder.chat(str(uuid.uuid4())):
            pass
    with pytest.raises(Unavailable):
        await gone.builder.start(ASKING)
    await gone.close()


async def test_a_chat_whose_server_ends_says_so_and_the_draft_is_kept(tmp_path: Path) -> None:
    database, session_id = str(tmp_path / "perdure.db"), str(uuid.uuid4())
    async with served(tmp_path / "home", database) as found, found.client.builder.chat(session_id) as chat:
        turn = await chat.start(ASKING)
        found.server.surface.connections.end_all(CloseCode.SHUTDOWN)
        with pytest.raises(Unavailable, match="every turn is stored"):
            while True:
                await chat.resume()
    async with served(tmp_path / "home", database) as found:
        assert (await found.client.builder.get(session_id))["turn"] == turn


async def test_a_session_that_was_answered_to_its_end_can_be_built_by_another_process(there: Served) -> None:
    session_id = await ready(there.client)
    async with there.client.builder.chat(session_id) as chat:
        assert (await chat.resume())["action"] == "ready_to_assemble"
        assert chat.turn is not None
        config = chat.turn["config"]
        assert (await chat.assemble({**config, "name": "Eve"}))["bot_slug"] == "eve"
