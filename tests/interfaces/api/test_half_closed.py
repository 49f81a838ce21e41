"""Clients that send their requests, close their half of the connection, and then read the answers."""

from collections.abc import AsyncIterator

import pytest

from perdure.app import Perdure
from perdure.client import Client
from perdure.interfaces.api.server import Address, Running, running
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
