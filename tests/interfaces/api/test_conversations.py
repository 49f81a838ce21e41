"""Conversations over HTTP: begun, continued, stopped, forked before a message and read, each call once with its key."""

import asyncio
from typing import Any

import pytest

from perdure import Conflict, Invalid, NotFound
from perdure.client import Client
from perdure.errors import KeyTaken, Unavailable
from perdure.testing.model_server import ModelServer, ScriptedAnswer, ScriptedCall
from tests.interfaces.api.serving import Served
from tests.interfaces.api.talks import built

MODEL = "openai:scripted"


pytestmark = pytest.mark.usefixtures("model_server")


async def answered(client: Client, goal_id: str, turns: int, after_seq: int = 0) -> list[dict[str, Any]]:
    """Follow a conversation until it has some turns of the model, and return its transcript."""
    async with asyncio.timeout(60):
        async for event in client.goals.follow(goal_id, after_seq=after_seq):
            turns -= event["type"] == "model_turn"
            if turns == 0:
                break
    return [dict(entry) async for entry in client.conversations.transcript(goal_id)]


def texts(transcript: list[dict[str, Any]]) -> list[str]:
    """Return what was said, in order."""
    spoken = (entry for entry in transcript if entry["kind"] in ("message", "model_turn"))
    said = (entry["text"] if entry["kind"] == "message" else entry["parts"][0].get("text") for entry in spoken)
    return [text for text in said if text is not None]


async def test_a_conversation_is_begun_and_continued_by_the_server(there: Served, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer("First."), ScriptedAnswer("Second."))
    goal = await there.client.conversations.start("One?", model=MODEL)
    assert (goal["mind"], goal["bot"], goal["queue"]) == ("model", None, "server")
    await answered(there.client, goal["id"], 1)
    posted = await there.client.conversations.say(goal["id"], "Two?")
    assert posted["seq"] is not None
    assert not posted["pending"]
    found = await answered(there.client, goal["id"], 2)
    assert texts(found) == ["One?", "First.", "Two?", "Second."]
    assert [entry["seq"] for entry in found] == sorted(entry["seq"] for entry in found)
    assert found[2]["seq"] == posted["seq"]


async def test_a_bot_answers_in_its_own_conversations(there: Served, model_server: ModelServer) -> None:
    bot = await built(there.client)
    model_server.script.add(ScriptedAnswer("I am Ada."))
    goal = await there.client.conversations.start("Who are you?", bot=bot["bot_slug"], model=MODEL)
    assert goal["bot"] == bot["bot_slug"]
    assert texts(await answered(there.client, goal["id"], 1)) == ["Who are you?", "I am Ada."]
    with pytest.raises(NotFound):
        await there.client.conversations.start("Hello?", bot="no-such-bot", model=MODEL)


async def test_a_key_begins_says_and_forks_once(there: Served, model_server: ModelServer) -> None:
    model_server.script.add(*(ScriptedAnswer(f"Answer {n}.") for n in (1, 2, 3)))
    talk = there.client.conversations
    goals = [await talk.start("One?", model=MODEL, key="begin") for _ in range(2)]
    assert goals[0]["id"] == goals[1]["id"]
    goal_id = goals[0]["id"]
    await answered(there.client, goal_id, 1)
    said = [await talk.say(goal_id, "Two?", key="two") for _ in range(2)]
    assert said[0] == said[1]
    found = await answered(there.client, goal_id, 2)
    assert texts(found) == ["One?", "Answer 1.", "Two?", "Answer 2."]
    place = found[2]["seq"]
    forks = [await talk.fork(goal_id, before_message=place, text="Or two?", key="fork") for _ in range(2)]
    assert forks[0]["id"] == forks[1]["id"]
    again = await answered(there.client, forks[0]["id"], 2)
    assert texts(again) == ["One?", "Answer 1.", "Or two?", "Answer 2."]
    with pytest.raises(KeyTaken, match="was used for another call"):
        await talk.say(goal_id, "Three?", key="two")


async def test_a_message_during_an_answer_waits_for_it(there: Served, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer("A long answer.", hold_after=1), ScriptedAnswer("Both."))
    talk = there.client.conversations
    goal = await talk.start("One?", model=MODEL)
    await streaming(there, goal["id"])
    said = [await talk.say(goal["id"], text, key=text) for text in ("Two?", "Three?")]
    assert said == [{"seq": None, "pending": True}] * 2
    model_server.release()
    found = await answered(there.client, goal["id"], 2)
    assert texts(found) == ["One?", "A long answer.", "Two?", "Three?", "Both."]
    assert (await talk.say(goal["id"], "Two?", key="Two?")) == {"seq": found[2]["seq"], "pending": False}


async def streaming(there: Served, goal_id: str) -> None:
    """Wait until a part of an answer has arrived."""
    while True:
        loop = there.p.goals.runs().get(goal_id)
        if loop is not None and loop.answers.partial():
            return
        await there.p.goals.pause()


async def test_a_stop_keeps_what_has_arrived(there: Served, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer("Eight chars, and many more of them.", hold_after=1), ScriptedAnswer("Yes."))
    talk = there.client.conversations
    goal = await talk.start("One?", model=MODEL)
    await streaming(there, goal["id"])
    await talk.stop(goal["id"], key="stop")
    found = await answered(there.client, goal["id"], 1)
    assert (found[-1]["finish_reason"], found[-1]["parts"]) == ("interrupted", [{"kind": "text", "text": "Eight ch"}])
    assert (await talk.stop(goal["id"], key="stop"))["seq"] == found[-1]["seq"]
    assert (await talk.stop(goal["id"]))["seq"] is None, "nothing is stopped while nothing is answered"
    model_server.release()
    await talk.say(goal["id"], "Still there?")
    assert texts(await answered(there.client, goal["id"], 2))[-1] == "Yes."


async def test_a_fork_is_answered_by_another_model(there: Served, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer("First."), ScriptedAnswer("Second."))
    talk = there.client.conversations
    goal = await talk.start("One?", model=MODEL)
    found = await answered(there.client, goal["id"], 1)
    fork = await talk.fork(goal["id"], found[-1]["seq"], text="Two?", model="openai-chat:other")
    again = await answered(there.client, fork["id"], 2)
    assert [entry["model"] for entry in again if entry["kind"] == "model_turn"] == [MODEL, "openai-chat:other"]
    with pytest.raises(Invalid, match="is not the name of a model"):
        await talk.fork(goal["id"], found[-1]["seq"], model="nonsense")
    with pytest.raises(Invalid, match="require `at` or `before_message`"):
        await there.client.request("POST", f"/goals/{goal['id']}/fork", {"before": "x", "text": "Two?"})


async def test_a_transcript_has_calls_and_results_page_by_page(there: Served, model_server: ModelServer) -> None:
    model_server.script.add(
        ScriptedAnswer("Let me see.", calls=(ScriptedCall("read_file", {"path": "missing.txt"}),)),
        ScriptedAnswer("It is not there."),
    )
    policy = {"rules": [{"tool": "read_file", "verdict": "allow"}]}
    goal = await there.client.conversations.start("Read it.", model=MODEL, policy=policy)
    found = await answered(there.client, goal["id"], 2)
    assert [entry["kind"] for entry in found] == ["message", "model_turn", "tool_output", "model_turn"]
    assert (found[2]["call_id"], found[2]["ok"]) == ("t1.1", False)
    pages = [entry async for entry in there.client._connection.each(f"/goals/{goal['id']}/transcript", limit=1)]
    assert pages == found
    later = (await there.http.get(f"/goals/{goal['id']}/transcript?after_seq={found[1]['seq']}")).json()
    assert (later["data"], later["meta"]["next_cursor"]) == (found[2:], None)


async def test_what_is_not_a_conversation_takes_no_messages(there: Served, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer("First."))
    command = await there.client.goals.create(command=["true"])
    talk = there.client.conversations
    with pytest.raises(Conflict, match="is not a conversation"):
        await talk.say(command["id"], "Hello?")
    with pytest.raises(Conflict, match="is not a conversation"):
        await talk.stop(command["id"])
    assert (await there.http.get(f"/goals/{command['id']}/transcript")).status_code == 409
    with pytest.raises(NotFound):
        await talk.say("20260101-000000-nothing-0000", "Hello?")
    goal = await talk.start("One?", model=MODEL)
    await answered(there.client, goal["id"], 1)
    await there.client.goals.cancel(goal["id"])
    with pytest.raises(Conflict, match="has ended"):
        await talk.say(goal["id"], "Hello?")
    with pytest.raises(Invalid):
        await talk.say(goal["id"], "x" * 100_001)


async def test_without_a_model_nothing_is_begun(there: Served) -> None:
    with pytest.raises(Unavailable, match="No model is configured"):
        await there.client.conversations.start("Hello?")
    assert [goal async for goal in there.client.goals.each()] == []


async def rows(client: Client, bot: str = "assistant", limit: int = 50) -> list[dict[str, Any]]:
    """Return the listed conversations with a bot."""
    return [dict(each) async for each in client.conversations.each(bot, limit=limit)]


async def test_conversations_are_listed_whatever_they_wait_for(there: Served, model_server: ModelServer) -> None:
    call = ScriptedCall("exec", {"argv": ["true"]})
    model_server.script.add(
        ScriptedAnswer("First. " + "x" * 600, match="One"),
        ScriptedAnswer("I run it.", calls=(call,), match="Run it"),
        ScriptedAnswer(status=401, message="The key is wrong.", match="Three"),
        ScriptedAnswer("Second.", match="Two"),
    )
    begun = []
    for text, waits_for in (("One?", "message"), ("Run it.", "person"), ("Three?", "model")):
        goal = await there.client.conversations.start(text, model=MODEL)
        begun.append(goal["id"])
        while (await there.client.goals.get(goal["id"]))["waiting_for"] != waits_for:
            await there.p.goals.pause()
    found = await rows(there.client, limit=1)
    assert [row["goal"]["id"] for row in found] == begun[::-1]
    assert [row["goal"]["waiting_for"] for row in found] == ["model", "person", "message"]
    assert [(row["title"], row["messages"]) for row in found] == [("Three?", 1), ("Run it.", 1), ("One?", 1)]
    assert [row["last_text"] for row in found] == ["Three?", "I run it.", ("First. " + "x" * 600)[:500]]
    await there.client.goals.cancel(begun[2])
    await there.client.conversations.say(begun[0], "Two?")
    await answered(there.client, begun[0], 2)
    again = await rows(there.client)
    assert [row["goal"]["id"] for row in again] == [begun[0], begun[2], begun[1]]
    assert (again[0]["messages"], again[0]["last_text"]) == (2, "Second.")


async def test_each_bot_has_its_own_list(there: Served, model_server: ModelServer) -> None:
    bot = (await built(there.client))["bot_slug"]
    assert await rows(there.client, bot) == []
    model_server.script.add(ScriptedAnswer("I am Ada."))
    goal = await there.client.conversations.start("Who are you?", bot=bot, model=MODEL)
    assert [row["goal"]["id"] for row in await rows(there.client, bot)] == [goal["id"]]
    assert await rows(there.client) == []
    with pytest.raises(NotFound):
        await rows(there.client, "no-such-bot")


@pytest.mark.parametrize("cursor", ["x", "MTIzIDQ1Ng"])
async def test_a_cursor_of_another_list_is_rejected(there: Served, cursor: str) -> None:
    found = await there.http.get(f"/bots/assistant/chat?cursor={cursor}")
    assert (found.status_code, "Unknown cursor" in found.json()["detail"]) == (422, True)


async def test_a_conversation_is_compacted_by_the_server(there: Served, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer("They asked twice.", match="PERSON:"))
    model_server.script.add(*(ScriptedAnswer(f"Answer {n}.") for n in range(1, 7)))
    talk = there.client.conversations
    goal = await talk.start("Question 1?", model=MODEL)
    for n in range(2, 7):
        await answered(there.client, goal["id"], n - 1)
        await talk.say(goal["id"], f"Question {n}?")
    await answered(there.client, goal["id"], 6)
    while (await there.client.goals.get(goal["id"]))["status"] != "waiting":
        await there.p.goals.pause()
    for _ in range(2):
        await there.client.goals.resume(goal["id"], compact=True, key="compact")
    async for event in there.client.goals.follow(goal["id"]):
        if event["type"] == "summary":
            break
    found = [dict(entry) async for entry in talk.transcript(goal["id"])]
    assert [entry["text"] for entry in found if entry["kind"] == "summary"] == ["They asked twice."]
    command = await there.client.goals.create(command=["true"])
    with pytest.raises(Conflict, match="is not a conversation"):
        await there.client.goals.resume(command["id"], compact=True)
