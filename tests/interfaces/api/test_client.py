"""The client, over a real socket: it raises our own errors and no others, and an id can name only what it names."""

import asyncio
import math
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from websockets.asyncio.server import ServerConnection, serve

from perdure import Invalid
from perdure.client import Client
from perdure.errors import NotFound, PerdureError, Unavailable
from tests.interfaces.api.serving import Served
from tests.interfaces.api.talks import ASKING, built

HALF = "\ud800"
SESSION = str(uuid.uuid4())


@dataclass
class Listener:
    """Notes what is asked for, and answers always the same."""

    answer: bytes
    asked: list[str] = field(default_factory=list)
    connections: int = 0

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while line := await reader.readline():
                self.asked.append(line.decode().split(" ")[1])
                headers = await reader.readuntil(b"\r\n\r\n")
                length = [part for part in headers.lower().split(b"\r\n") if part.startswith(b"content-length:")]
                await reader.readexactly(int(length[0].partition(b":")[2]) if length else 0)
                writer.write(self.answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def answered(body: bytes, status: str = "404 Not Found") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def listening(body: bytes, status: str = "404 Not Found") -> AsyncIterator[tuple[Listener, Client]]:
    listener = Listener(answered(body, status))
    server = await asyncio.start_server(listener.hear, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Client(f"http://127.0.0.1:{port}", "token") as client:
        yield listener, client
    server.close()


NOTHING = orjson.dumps({"detail": "nothing", "code": "not_found", "errors": []})
UNSENDABLE: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "half a surrogate pair in a record": lambda c: c.memory.add({"type": "fact", "title": HALF}),
    "half a surrogate pair in a key of a record": lambda c: c.memory.add({"type": "fact", HALF: 1}),
    "an object in a record": lambda c: c.memory.add({"type": "fact", "title": object()}),
    "NaN in limits": lambda c: c.goals.create(command="true", limits={"usd": math.nan}),
    "infinity in a signal": lambda c: c.goals.signal("x", "paid", math.inf),
    "a set among the arguments": lambda c: c.goals.create(flow="a:b", args={"x": {1}}),
    "bytes in an answer": lambda c: c.builder.answer(SESSION, b"x"),
    "half a surrogate pair in a description": lambda c: c.builder.start(HALF),
    "NaN in a config": lambda c: c.builder.assemble(SESSION, {"x": math.nan}),
    "half a surrogate pair in a search": lambda c: c.memory.search(HALF),
    "half a surrogate pair in a path": lambda c: c.memory.related(paths=[HALF]),
    "a key that is not ASCII": lambda c: c.goals.create(command="true", key="é"),
    "a key with a new line": lambda c: c.goals.create(command="true", key="a\nb"),
    "a key with blanks around it": lambda c: c.memory.add({"type": "fact"}, key=" a "),
    "an empty key": lambda c: c.builder.start("x", key=""),
    "an etag with a new line": lambda c: c.bots.delete("ada", etag="1\r\nX: y"),
    "half a surrogate pair in an id of a goal": lambda c: c.goals.get(HALF),
    "half a surrogate pair in a slug": lambda c: c.bots.get(HALF),
    "half a surrogate pair in a name of a file": lambda c: c.bots.file("ada", f"skills/{HALF}"),
    "half a surrogate pair in an id of a record": lambda c: c.memory.get(HALF),
    "half a surrogate pair in a path of one's own": lambda c: c.request("GET", f"/{HALF}"),
    "an id that is not text": lambda c: c.goals.get(7),  # type: ignore[arg-type]
    "an id that is longer than any address": lambda c: c.bots.get("x" * 70_000),
    "a new line in a path of one's own": lambda c: c.request("GET", "/goals\n"),
}


@pytest.mark.parametrize("what", UNSENDABLE)
async def test_what_cannot_be_sent_is_invalid_and_nothing_is_sent(what: str) -> None:
    async with listening(NOTHING) as (listener, client):
        with pytest.raises(Invalid):
            await UNSENDABLE[what](client)
        assert listener.connections == 0


async def test_a_record_within_itself_is_invalid() -> None:
    record: dict[str, Any] = {"type": "fact"}
    record["self"] = record
    async with listening(NOTHING) as (listener, client):
        with pytest.raises(Invalid):
            await client.memory.add(record)
        assert listener.connections == 0


@pytest.mark.parametrize(
    "url", ["", "nonsense", "127.0.0.1:8733", "ftp://here", "http://", "http://[::1", "http://a:b"]
)
def test_what_is_no_address_of_a_server_is_invalid(url: str) -> None:
    with pytest.raises(Invalid):
        Client(url, "token")


@pytest.mark.parametrize("token", ["", "é", "secret\n", "a secret"])
def test_what_can_be_no_token_is_invalid_and_not_repeated(token: str) -> None:
    with pytest.raises(Invalid) as caught:
        Client("http://127.0.0.1:8733", token)
    assert "secret" not in str(caught.value)


NAMED: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "/goals/x%3Fy": lambda c: c.goals.get("x?y"),
    "/goals/x%23y/cancel": lambda c: c.goals.cancel("x#y"),
    "/goals/%2E%2E": lambda c: c.goals.get(".."),
    "/goals/%2E/fork": lambda c: c.goals.fork(".", 1),
    "/goals/a%252Fb/resume": lambda c: c.goals.resume("a%2Fb"),
    "/goals/%20/signals": lambda c: c.goals.signal(" ", "paid"),
    "/goals/x%26y/decisions": lambda c: c.goals.decide("x&y", "approve"),
    "/bots/%2E%2E": lambda c: c.bots.get(".."),
    "/bots/a/files/%2E%2E/%2E%2E/token": lambda c: c.bots.file("a", "../../token"),
    "/bots/a/files/skills/b/SKILL.md": lambda c: c.bots.file("a", "skills/b/SKILL.md"),
    "/bots/a/files//etc/passwd": lambda c: c.bots.file("a", "/etc/passwd"),
    "/bots/a%3Fb/versions?limit=50": lambda c: c.bots.versions("a?b"),
    "/skills/%2E%2E": lambda c: c.bots.skill(".."),
    "/memory/records/%2E%2E": lambda c: c.memory.forget(".."),
    "/memory/records/a%2F..%2Fb": lambda c: c.memory.get("a/../b"),
    "/builder/sessions/%2E%2E": lambda c: c.builder.delete(".."),
    "/builder/sessions/a%3Fb/answer": lambda c: c.builder.answer("a?b", 1),
}


async def test_an_id_is_one_step_of_the_path_whatever_it_looks_like() -> None:
    async with listening(NOTHING) as (listener, client):
        for ask in NAMED.values():
            with pytest.raises(NotFound):
                await ask(client)
        assert listener.asked == [f"/api/v1{path}" for path in NAMED]


SLASHES: tuple[Callable[[Client], Awaitable[Any]], ...] = (
    lambda c: c.goals.get(""),
    lambda c: c.goals.get("x/events"),
    lambda c: c.bots.get("a/versions"),
    lambda c: c.bots.delete(""),
    lambda c: c.bots.file("a/files/SOUL.md", "x"),
    lambda c: c.bots.skill("a/b"),
    lambda c: c.builder.get("a/answer"),
    lambda c: anext(c.goals.follow("x/y", tries=0)),
    lambda c: anext(c.goals.events("x/y")),
)


async def test_nothing_has_an_id_that_is_empty_or_would_be_several_steps() -> None:
    async with listening(NOTHING) as (listener, client):
        for ask in SLASHES:
            with pytest.raises(NotFound):
                await ask(client)
        assert listener.connections == 0


async def test_odd_ids_are_not_found_by_a_server(there: Served) -> None:
    await built(there.client)
    client = there.client
    goal = await client.goals.create(command="true")
    odd = ("..", ".", "x?y", f"{goal['id']}?x=1", f"{goal['id']}#x", f"{goal['id']}/events", f"{goal['id']}%2Fevents")
    for each in odd:
        with pytest.raises(NotFound):
            await client.goals.get(each)
        with pytest.raises(NotFound):
            await anext(client.goals.follow(each, tries=0))
    for name in ("../../token", "../bob/SOUL.md", "./SOUL.md", "skills/../SOUL.md", "SOUL.md?x", "", "/SOUL.md"):
        with pytest.raises(NotFound):
            await client.bots.file("ada", name)
    for slug in ("ada/versions", "ada?x", "ada#x", "ada/../ada", "..", ""):
        with pytest.raises(NotFound):
            await client.bots.delete(slug)
    assert (await client.bots.get("ada"))["slug"] == "ada"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        *((body, "200 OK") for body in (b"", b"<html>", b"[]", b"{}", b'{"data": 1}', b"\xff")),
        *((body, "500 Oops") for body in (b"", b"<html>", b"[]", b"{}", b'{"detail": 1, "errors": [1]}')),
    ],
)
async def test_an_answer_that_no_server_of_ours_gives_is_unavailable(body: bytes, status: str) -> None:
    async with listening(body, status) as (_listener, client):
        with pytest.raises(Unavailable):
            await client.goals.get("x")
        with pytest.raises(Unavailable):
            async with client.builder.chat(SESSION):
                pass


async def test_what_cannot_be_sent_over_a_chat_is_invalid_and_the_chat_continues(there: Served) -> None:
    async with there.client.builder.chat(str(uuid.uuid4())) as chat:
        turn = await chat.start(ASKING)
        for wrong in ({"free_text": HALF}, math.nan, {"x": object()}, b"x", {1, 2}):
            with pytest.raises(Invalid):
                await chat.answer(wrong)
        with pytest.raises(Invalid):
            await chat.assemble({"name": HALF})
        assert await chat.resume() == turn
        assert chat.revision == 1


async def test_an_answer_that_is_too_large_for_a_frame_is_invalid(there: Served) -> None:
    async with there.client.builder.chat(str(uuid.uuid4())) as chat:
        await chat.start(ASKING)
        with pytest.raises(Invalid, match="frame is too large"):
            await chat.answer({"free_text": "x" * 300_000})


async def test_an_error_that_names_no_frame_is_the_reply_to_the_one_that_waits() -> None:
    async def nameless(socket: ServerConnection) -> None:
        frame = orjson.loads(await socket.recv())
        await socket.send('{"type": "pong", "reply_to": "another"}')
        await socket.send('{"type": "error", "code": "invalid", "message": "What is that?"}')
        await socket.send(orjson.dumps({"type": "turn", "turn": {}, "revision": 1, "reply_to": frame["id"]}).decode())
        frame = orjson.loads(await socket.recv())
        await socket.send(orjson.dumps({"type": "turn", "turn": {}, "revision": 2, "reply_to": frame["id"]}).decode())
        await socket.wait_closed()

    async with serve(nameless, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with Client(f"http://127.0.0.1:{port}", "token") as client, client.builder.chat(SESSION) as chat:
            with pytest.raises(Invalid, match="What is that"):
                await asyncio.wait_for(chat.answer({"option_index": 0}), 5)
            await asyncio.wait_for(chat.resume(), 5)
            assert chat.revision == 2, "the late reply is not taken for this one"


async def test_every_refusal_of_a_server_is_one_of_our_errors(there: Served) -> None:
    for method in ("GET", "POST", "DELETE", "PATCH"):
        for path in ("/nowhere", "/goals", "/bots/ada", "/memory/records", ""):
            with pytest.raises(PerdureError):
                await there.client.request(method, path, {"x": 1}, query={"limit": 0})


async def test_only_a_client_of_https_reads_the_certificates_of_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certifi.where", lambda: "/nowhere")
    await Client("http://127.0.0.1:1", "token").close()
    with pytest.raises(FileNotFoundError):
        Client("HTTPS://perdure.example", "token")
