"""What a hostile or broken model sends to clients of the server: JSON that escapes, bounded, and never an error 500."""

import asyncio
from typing import Any

import orjson
import pytest

from perdure.client import Client
from perdure.testing.model_server import ModelServer, Script, ScriptedAnswer, ScriptedCall
from tests.interfaces.api.serving import Served
from tests.interfaces.api.test_conversation_socket import line
from tests.interfaces.api.test_conversations import answered
from tests.interfaces.hostile import ATTACK, MODEL, ORDERS, VISIBLE_ATTACK, attacks

pytestmark = pytest.mark.usefixtures("model_server")

LARGEST = 2 << 20
"""More than the text of one turn, and less than what was sent."""


async def stopped(client: Client, goal_id: str) -> dict[str, Any]:
    """Wait until a goal waits or has ended, and return it."""
    async with asyncio.timeout(60):
        while True:
            goal = dict(await client.goals.get(goal_id))
            if goal["waiting_for"] is not None or goal["status"] in ("done", "failed"):
                return goal


def is_escaped(raw: bytes) -> bool:
    """Return whether no control character of ASCII is in a body, but the ends of lines."""
    return not [byte for byte in raw if byte < 0x20 and byte not in b"\r\n"]


async def test_every_form_of_a_conversation_is_json_that_escapes(plain: Served, model_server: ModelServer) -> None:
    model_server.script.add(*attacks(), ScriptedAnswer("Bye."))
    goal_id = (await plain.client.conversations.start(VISIBLE_ATTACK, model=MODEL))["id"]
    transcript = await answered(plain.client, goal_id, 3)
    assert transcript[1]["truncated"]
    assert [entry["kind"] for entry in transcript if entry["kind"] == "tool_output"] == ["tool_output"] * 128
    for path in ("", "/events", "/transcript", "/detail"):
        found = await plain.http.get(f"/goals/{goal_id}{path}")
        assert found.headers["content-type"].startswith("application/")
        assert found.headers["x-content-type-options"] == "nosniff"
        assert is_escaped(found.content)
        assert len(found.content) < 2 * LARGEST
        orjson.loads(found.content)
    async with line(plain, goal_id) as socket:
        await socket.turn()
        await socket.turn()
        large = await socket.turn()
        assert len(orjson.dumps(large)) < LARGEST
        await socket.send(type="message", id="m", text="Bye?")
        await socket.until("ack")
    assert (await answered(plain.client, goal_id, 4))[-1]["parts"] == [{"kind": "text", "text": "Bye."}]


async def test_an_event_stream_cannot_be_split_by_an_answer(plain: Served, model_server: ModelServer) -> None:
    forged = '\r\n\r\nevent: event\r\ndata: {"type": "forged"}\r\n\r\n'
    model_server.script.add(ScriptedAnswer(forged, characters=3))
    goal_id = (await plain.client.conversations.start("Hello", model=MODEL))["id"]
    await answered(plain.client, goal_id, 1)
    names: list[str] = []
    async with plain.http.stream("GET", f"/goals/{goal_id}/events", headers={"Accept": "text/event-stream"}) as stream:
        async for text in stream.aiter_lines():
            if text.startswith("data: "):
                names.append(orjson.loads(text[6:])["type"])
            if names[-1:] == ["model_turn"]:
                break
    assert "forged" not in names


async def test_an_approval_is_shown_as_data_and_the_policy_stays(plain: Served, model_server: ModelServer) -> None:
    call = ScriptedCall("exec", {"argv": [VISIBLE_ATTACK, ORDERS]})
    model_server.script.add(ScriptedAnswer(f"{ORDERS}{ATTACK}", calls=(call,)))
    goal_id = (await plain.client.goals.create(text="Run it.", model=MODEL))["id"]
    assert (await stopped(plain.client, goal_id))["waiting_for"] == "person"
    found = await plain.http.get("/approvals")
    assert is_escaped(found.content)
    assert ORDERS in str(orjson.loads(found.content))


@pytest.mark.parametrize(
    "broken",
    [
        ScriptedAnswer(status=401, message=ATTACK),
        ScriptedAnswer(status=429, retry_after="3600", message=ATTACK),
        ScriptedAnswer(raw_bytes=b"HTTP/1.1 307 Moved\r\nlocation: http://evil.invalid/\r\ncontent-length: 0\r\n\r\n"),
    ],
    ids=["rejected", "later", "elsewhere"],
)
async def test_a_provider_that_fails_parks_the_goal_of_a_server(
    plain: Served, model_server: ModelServer, broken: ScriptedAnswer
) -> None:
    model_server.script = Script([broken] * 4)
    goal_id = (await plain.client.goals.create(text="Say hello.", model=MODEL))["id"]
    goal = await stopped(plain.client, goal_id)
    assert goal["waiting_for"] == "model"
    assert is_escaped((await plain.http.get(f"/goals/{goal_id}")).content)
    refused = await plain.http.post("/builder/sessions", json={"description": "A coding assistant", "engine": "model"})
    assert refused.status_code == 503
    assert is_escaped(refused.content)
    model_server.script = Script([ScriptedAnswer("Hello.")])
    await plain.client.goals.resume(goal_id)
    async with asyncio.timeout(60):
        _ = [event async for event in plain.client.goals.follow(goal_id)]
    assert (await plain.client.goals.get(goal_id))["status"] == "done"
