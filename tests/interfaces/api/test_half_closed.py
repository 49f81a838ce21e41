"""Clients that send their requests, close their half of the connection, and then read the answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing

import pytest

from perdure.app import Perdure
from perdure.client import Client
from perdure.interfaces.api.server import Address, Running, running
from perdure.memory.log.lock import LogLock
from tests.interfaces.api.test_framing import BODY
from tests.interfaces.api.test_goals import ASKS, waiting
from tests.interfaces.api.test_stalls import until
from tests.interfaces.api.test_wire import connected, request, rest

JSON = ("Content-Type: application/json", f"Content-Length: {len(BODY)}")


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """What is tried here has nothing to do with the database."""
    return str(request.param)


@pytest.fixture
async def hasty(home: Perdure) -> AsyncIterator[Running]:
    """A server that soon loses its patience."""
    async with running(home, Address(port=0, patience_s=0.3)) as server:
        yield server


async def answer_to(server: Running, sent: bytes) -> bytes:
    reader, writer = await connected(server, sent)
    writer.write_eof()
    return await rest((reader, writer))


async def test_a_half_closed_post_is_answered_and_the_connection_closed(server: Running) -> None:
    answer = await answer_to(server, request(server, "POST /api/v1/goals", *JSON, body=BODY))
    assert answer.startswith(b"HTTP/1.1 201 ")
    assert len(await server.surface.p.goals.list()) == 1


RECORD = '{"type": "lesson", "title": "Late"}'


def added(server: Running, *headers: str) -> bytes:
    """Return the request that adds a record."""
    length = f"Content-Length: {len(RECORD)}"
    return request(server, "POST /api/v1/memory/records", JSON[0], length, *headers, body=RECORD)


async def test_a_half_closed_client_adds_a_record(server: Running) -> None:
    assert (await answer_to(server, added(server))).startswith(b"HTTP/1.1 201 ")


async def test_a_record_that_waits_for_the_lock_when_its_client_leaves_is_not_stored_later(server: Running) -> None:
    memory, log = server.surface.p.memory, server.surface.p.settings.memory_state_dir / "memory.jsonl"
    await memory.add({"type": "lesson", "title": "First"})
    before = log.read_bytes()
    with closing(LogLock(log.with_name("memory.jsonl.lock"))) as lock, lock:
        keyed = added(server, "Idempotency-Key: once")
        for answer in await asyncio.gather(answer_to(server, added(server)), answer_to(server, keyed)):
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"a write that had not begun is not done" in answer
        _, writer = await connected(server, added(server))
        await until(lambda: len(server.connections) == 1)
        writer.transport.abort()
        await until(lambda: len(server.connections) == 0)
    await memory.close()
    assert log.read_bytes() == before, "closing waits for the writes, which have had the lock by now"
    assert (await answer_to(server, keyed)).startswith(b"HTTP/1.1 201 "), "the key can be used again"
    assert len((await memory.list())["records"]) == 2


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/goals"])
async def test_a_half_closed_get_is_answered_and_the_connection_closed(server: Running, path: str) -> None:
    assert (await answer_to(server, request(server, f"GET {path}"))).startswith(b"HTTP/1.1 200 ")


async def test_every_pipelined_request_of_a_half_closed_client_is_answered(server: Running) -> None:
    answer = await answer_to(server, request(server, "GET /api/v1/goals") * 3)
    assert answer.count(b"HTTP/1.1 200 ") == 3


async def test_a_half_close_within_a_body_is_not_carried_out(server: Running) -> None:
    answer = await answer_to(server, request(server, "POST /api/v1/goals", *JSON, body=BODY)[:-1])
    assert b"HTTP/1.1 2" not in answer
    assert await server.surface.p.goals.list() == []


async def test_a_half_close_within_the_second_request_leaves_the_first_its_answer(server: Running) -> None:
    second = request(server, "POST /api/v1/goals", *JSON, body=BODY)[:-1]
    answer = await answer_to(server, request(server, "GET /api/v1/goals") + second)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert await server.surface.p.goals.list() == []


async def test_a_stream_ends_when_its_client_closes_its_half(server: Running, client: Client) -> None:
    goal = await waiting(client, (await client.goals.create(plan=ASKS))["id"])
    await answer_to(server, request(server, f"GET /api/v1/goals/{goal['id']}/events", "Accept: text/event-stream"))


async def test_a_pipelined_request_whose_body_comes_later_is_answered(server: Running) -> None:
    second = request(server, "POST /api/v1/goals", *JSON, "Connection: close", body=BODY)
    reader, writer = await connected(server, request(server, "GET /api/v1/goals") + second[:-1])
    await reader.readuntil(b"\r\n\r\n")
    writer.write(second[-1:])
    assert b"HTTP/1.1 201 " in await rest((reader, writer))


async def test_a_half_closed_client_that_never_reads_is_closed(hasty: Running) -> None:
    names = [f"X-{number}: {'x' * 50}" for number in range(80)]
    _, writer = await connected(hasty, request(hasty, "GET /api/v1/openapi.json", *names) * 200)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await writer.drain()
    writer.write_eof()
    await until(lambda: len(hasty.connections) == 0)
    writer.transport.abort()


async def test_a_pipelined_request_that_does_not_become_whole_is_not_waited_for(hasty: Running) -> None:
    second = request(hasty, "POST /api/v1/goals", *JSON, body=BODY)[:-1]
    answer = await rest(await connected(hasty, request(hasty, "GET /api/v1/goals") + second))
    assert answer.count(b"HTTP/1.1 ") == 1
