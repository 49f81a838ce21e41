"""The socket of a conversation: answers while they arrive, commands and their acks, reconnects, hostile frames."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from websockets.asyncio.client import ClientConnection

from perdure.client.sockets import open_socket
from perdure.testing.model_server import ModelServer, ScriptedAnswer, ScriptedCall
from tests.interfaces.api.serving import Served
from tests.interfaces.api.test_conversations import MODEL, answered, streaming, texts

ANSWER = "An answer with more than a few characters. " * 20


pytestmark = pytest.mark.usefixtures("model_server")


@dataclass
class Line:
    """One socket, and all that it has sent."""

    socket: ClientConnection
    seen: list[dict[str, Any]] = field(default_factory=list)
    text: dict[tuple[int, int], str] = field(default_factory=dict)
    """The text of each part of a turn, as its frames say."""

    async def send(self, **frame: Any) -> None:
        await self.socket.send(orjson.dumps(frame).decode())

    async def until(self, kind: str, **wanted: Any) -> dict[str, Any]:
        """Read until a frame of a type comes, and return it; frames of answers are put together."""
        async with asyncio.timeout(60):
            while True:
                frame = orjson.loads(await self.socket.recv())
                self.seen.append(frame)
                self._assemble(frame)
                if frame["type"] == kind and wanted.items() <= frame.items():
                    return dict(frame)

    async def turn(self) -> dict[str, Any]:
        """Read until the next turn of the model is recorded, and return its event."""
        while True:
            event: dict[str, Any] = (await self.until("event"))["event"]
            if event["type"] == "model_turn":
                return event

    def _assemble(self, frame: dict[str, Any]) -> None:
        place = (frame.get("turn", 0), frame.get("part", 0))
        if frame["type"] == "partial":
            self.text[place] = frame["text"]
        elif frame["type"] == "delta":
            assert frame["offset"] == len(self.text.get(place, "")), "no piece is missing"
            self.text[place] = self.text.get(place, "") + frame["text"]
        elif frame["type"] == "delta_reset":
            self.text = {each: text for each, text in self.text.items() if each[0] != frame["turn"]}


@asynccontextmanager
async def line(served: Served, goal_id: str, after_seq: int = 0, *, deltas: bool = True) -> AsyncIterator[Line]:
    path = f"/ws/goals/{goal_id}?after_seq={after_seq}" + ("&deltas=1" if deltas else "")
    async with open_socket(served.client._connection, path) as socket:
        yield Line(socket)


async def begun(there: Served, text: str = "One?", **more: Any) -> str:
    return str((await there.client.conversations.start(text, model=MODEL, **more))["id"])


async def test_an_answer_streams_in_order_and_its_event_has_the_same_text(
    there: Served, model_server: ModelServer
) -> None:
    model_server.script.add(ScriptedAnswer(ANSWER, hold_after=3))
    goal_id = await begun(there)
    await streaming(there, goal_id)
    async with line(there, goal_id) as socket:
        await socket.until("partial")
        model_server.release()
        event = await socket.turn()
        assert event["payload"]["parts"][0]["text"] == ANSWER
        assert ANSWER.startswith(socket.text[1, 0])
        seqs = [frame["event"]["seq"] for frame in socket.seen if frame["type"] == "event"]
        assert seqs == list(range(1, len(seqs) + 1))
    assert [event["seq"] async for event in there.client.goals.events(goal_id)] == seqs


async def test_messages_are_acked_when_durable_and_a_repeated_id_gets_the_same_ack(
    there: Served, model_server: ModelServer
) -> None:
    model_server.script.add(ScriptedAnswer("First."), ScriptedAnswer("Second."))
    goal_id = await begun(there)
    async with line(there, goal_id) as socket:
        await socket.turn()
        await socket.send(type="message", id="m1", text="Two?")
        ack = await socket.until("ack")
        await socket.send(type="message", id="m1", text="Two?")
        assert await socket.until("ack") == ack
        await socket.send(type="message", id="m1", text="Something else")
        assert (await socket.until("error"))["reply_to"] == "m1"
        await socket.send(type="ping")
        await socket.until("pong")
    async with line(there, goal_id) as socket:
        await socket.send(type="message", id="m1", text="Two?")
        assert (await socket.until("ack"))["seq"] is not None
    assert texts(await answered(there.client, goal_id, 2)) == ["One?", "First.", "Two?", "Second."]


async def test_a_stop_on_the_socket_keeps_the_text_so_far(there: Served, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer(ANSWER, hold_after=2))
    goal_id = await begun(there)
    await streaming(there, goal_id)
    async with line(there, goal_id) as socket:
        await socket.send(type="stop", id="s1")
        await socket.until("ack", reply_to="s1")
    async with line(there, goal_id) as socket:
        event = await socket.turn()
    assert event["payload"]["finish_reason"] == "interrupted"
    assert ANSWER.startswith(event["payload"]["parts"][0]["text"])


async def test_a_client_that_reconnects_begins_with_the_partial_text(there: Served, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer(ANSWER, hold_after=4))
    goal_id = await begun(there)
    await streaming(there, goal_id)
    for _ in range(2):
        async with line(there, goal_id) as socket:
            partial = await socket.until("partial")
            assert ANSWER.startswith(partial["text"])
            last = [frame["event"]["seq"] for frame in socket.seen if frame["type"] == "event"][-1]
    async with line(there, goal_id, last) as socket:
        await socket.until("partial")
        model_server.release()
        assert (await socket.turn())["payload"]["parts"][0]["text"] == ANSWER


async def test_without_deltas_only_events_come(there: Served, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer(ANSWER, hold_after=1))
    goal_id = await begun(there)
    async with line(there, goal_id, deltas=False) as socket:
        await streaming(there, goal_id)
        model_server.release()
        await socket.turn()
        assert {frame["type"] for frame in socket.seen} == {"event"}


async def test_a_call_is_approved_on_the_socket(there: Served, model_server: ModelServer) -> None:
    call = ScriptedCall("exec", {"argv": ["echo", "hello"]})
    model_server.script.add(ScriptedAnswer(calls=(call,)), ScriptedAnswer("It said hello."))
    goal_id = await begun(there)
    async with line(there, goal_id) as socket:
        await socket.turn()
        while (await there.client.goals.get(goal_id))["waiting_for"] != "person":
            await there.p.goals.pause()
        (asked,) = await there.client.goals.approvals()
        about = {"type": "decision", "call_id": "t1.1", "decision": "approve"}
        await socket.send(id="d0", **about)
        assert "shown_sha256" in (await socket.until("error", reply_to="d0"))["message"]
        await socket.send(id="d0", **about, shown_sha256="0" * 64)
        assert (await socket.until("error", reply_to="d0"))["code"] == "conflict"
        for _ in range(2):
            await socket.send(id="d1", **about, shown_sha256=asked["shown_sha256"], scope="once")
            await socket.until("ack", reply_to="d1")
    assert texts(await answered(there.client, goal_id, 2))[-1] == "It said hello."


BAD: list[Any] = [
    b"bytes",
    "not json",
    "[]",
    '{"type": "message"}',
    '{"type": "message", "id": "x"}',
    '{"type": "message", "id": "x", "text": ""}',
    '{"type": "message", "id": "", "text": "a"}',
    '{"type": "message", "id": "x", "text": "\\ud800"}',
    '{"type": "stop"}',
    '{"type": "decision", "id": "x", "decision": "perhaps"}',
    '{"type": "decision", "id": "x", "decision": "approve"}',
    '{"type": "decision", "id": "x", "decision": "approve", "shown_sha256": "short"}',
    '{"type": "decision", "id": "x", "decision": "deny", "scope": "goal"}',
    '{"type": "fly"}',
    '{"type": "message", "id": "x", "text": "a", "more": 1}',
    "[" * 5000,
]


async def test_a_frame_that_does_not_fit_is_an_error_and_the_socket_stays_usable(
    there: Served, model_server: ModelServer
) -> None:
    model_server.script.add(ScriptedAnswer("First."), ScriptedAnswer("Second."))
    goal_id = await begun(there)
    async with line(there, goal_id) as socket:
        await socket.turn()
        for bad in BAD:
            await socket.socket.send(bad)
            await socket.until("error")
        await socket.send(type="message", id="m1", text="Still there?")
        await socket.until("ack")
    assert texts(await answered(there.client, goal_id, 2))[-1] == "Second."


async def test_what_is_not_a_conversation_takes_no_messages_on_its_socket(there: Served) -> None:
    goal = await there.client.goals.create(command=["sleep", "60"])
    async with line(there, goal["id"]) as socket:
        await socket.send(type="message", id="m1", text="Hello?")
        error = await socket.until("error")
        assert (error["code"], error["reply_to"]) == ("conflict", "m1")
    await there.client.goals.cancel(goal["id"])


async def test_64_conversations_at_once_stream_the_text_that_is_recorded(
    there: Served, model_server: ModelServer
) -> None:
    texts = {f"question {number:02}?": f"Answer {number:02}: " + "word " * 40 for number in range(64)}
    model_server.script.add(*(ScriptedAnswer(text, match=asked) for asked, text in texts.items()))

    async def talk(asked: str) -> None:
        goal_id = await begun(there, asked)
        async with line(there, goal_id) as socket:
            event = await socket.turn()
            assert event["payload"]["parts"][0]["text"] == texts[asked]
            assert texts[asked].startswith(socket.text.get((1, 0), ""))

    await asyncio.gather(*(talk(asked) for asked in texts))


async def test_server_sent_events_carry_the_answer(there: Served, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer(ANSWER, hold_after=2))
    goal_id = await begun(there)
    await streaming(there, goal_id)
    names: list[str] = []
    headers = {"Accept": "text/event-stream"}
    async with (
        asyncio.timeout(20),
        there.http.stream("GET", f"/goals/{goal_id}/events?deltas=1", headers=headers) as stream,
    ):
        async for text in stream.aiter_lines():
            if text.startswith("event: "):
                names.append(text.removeprefix("event: "))
                if names[-1] == "partial":
                    model_server.release()
            if '"model_turn"' in text:
                break
    assert "partial" in names
    assert set(names) <= {"event", "partial", "delta"}
