"""Connections that are held for nothing: slow requests, sockets that are none, peers that send and never read."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from perdure.app import Perdure
from perdure.interfaces.api.problems import BrokenRequest
from perdure.interfaces.api.protocols.sockets import MOST_FRAGMENTS
from perdure.interfaces.api.server import Address, Running, running

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]
UPGRADE = (
    f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {'A' * 22}==\r\n"
)
PING = b"\x89\xfd\0\0\0\0" + b"x" * 125
EMPTY_PART = b"\0\x80\0\0\0\0"


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """What is tried here has nothing to do with the database."""
    return str(request.param)


@pytest.fixture
async def hasty(home: Perdure) -> AsyncIterator[Running]:
    """A server that soon loses its patience."""
    async with running(home, Address(port=0, patience_s=0.3)) as server:
        yield server


def request(server: Running, line: str, *headers: str, body: str = "", is_known: bool = True) -> bytes:
    access = server.surface.access
    token = [f"Authorization: Bearer {access.token.read()}"] if is_known else []
    return "\r\n".join([f"{line} HTTP/1.1", f"Host: 127.0.0.1:{access.port}", *token, *headers, "", body]).encode()


async def connected(server: Running, sent: bytes) -> Peer:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.surface.access.port, limit=1 << 10)
    writer.write(sent)
    return reader, writer


async def rest(peer: Peer) -> bytes:
    """Read until the server closes the connection, which it has to."""
    reader, writer = peer
    async with asyncio.timeout(10):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.transport.abort()


SLOW: dict[str, Callable[[Running], bytes]] = {
    "nothing": lambda _: b"",
    "half a line": lambda _: b"GET /heal",
    "half of the headers": lambda server: request(server, "GET /healthz")[:-4],
    "half a body": lambda server: request(
        server, "POST /api/v1/goals", "Content-Type: application/json", "Content-Length: 99", body="{"
    ),
    "chunks without an end": lambda server: request(
        server, "POST /api/v1/goals", "Transfer-Encoding: chunked", body="1\r\n{\r\n"
    ),
    "a refused request": lambda server: request(
        server, "POST /api/v1/goals", "Content-Length: 99", body="{", is_known=False
    ),
}


@pytest.mark.parametrize("said", SLOW)
async def test_a_request_that_does_not_become_whole_is_not_waited_for(hasty: Running, said: str) -> None:
    await rest(await connected(hasty, SLOW[said](hasty)))


async def test_a_body_that_comes_byte_by_byte_is_not_waited_for(hasty: Running) -> None:
    peer = await connected(hasty, request(hasty, "POST /api/v1/goals", "Content-Length: 1000000", is_known=False))

    async def trickle() -> None:
        while not peer[1].transport.is_closing():
            peer[1].write(b" ")
            await asyncio.wait({ended}, timeout=0.05)

    ended = asyncio.create_task(rest(peer))
    await asyncio.gather(trickle(), ended)


async def test_a_connection_is_used_again_however_patient_we_are(hasty: Running) -> None:
    reader, writer = await connected(hasty, b"")
    for _ in range(3):
        writer.write(request(hasty, "GET /healthz"))
        assert b"200 OK" in await reader.readline()
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.splitlines() if line.lower().startswith(b"content-length"))
        await reader.readexactly(int(length.split()[1]))
    writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        *(b"nothing of ours\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        *(b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", b"\0\xff\r\n\r\n"),
    ],
    ids=["words", "no host", "two hosts", "long", "bytes"],
)
async def test_bytes_that_are_no_request_get_a_problem_like_everything_else(server: Running, sent: bytes) -> None:
    head, _, body = (await rest(await connected(server, sent))).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    for header in (b"application/problem+json", b"x-request-id: ", b"nosniff", b"no-store", b"default-src 'self'"):
        assert header in head
    problem = json.loads(body)
    assert (problem["status"], problem["code"]) == (400, BrokenRequest.code)
    assert problem["meta"]["request_id"].encode() in head


@pytest.mark.parametrize("declared", [2 << 20, 99999999999, 10**40])
async def test_a_body_that_is_declared_too_large_is_refused_before_it_comes(server: Running, declared: int) -> None:
    headers = ("Content-Type: application/json", f"Content-Length: {declared}")
    reader, writer = await connected(server, request(server, "POST /api/v1/goals", *headers, body="{}"))
    async with asyncio.timeout(2):
        assert (await reader.readline()).startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 400 "))
    writer.transport.abort()


async def test_a_header_that_is_said_once_is_not_said_twice(server: Running) -> None:
    for name in ("Idempotency-Key", "If-Match", "Last-Event-ID"):
        twice = (f"{name}: 1", f"{name}: 1", "Connection: close")
        assert b"422 " in (await rest(await connected(server, request(server, "GET /api/v1/goals", *twice))))[:20]


@pytest.mark.parametrize(
    "odd", [f"X-Long: {'x' * 9000}\r\n", "X-Many: 1\r\n" * 300, "Content-Length: 2\r\n"], ids=["long", "many", "body"]
)
async def test_an_upgrade_that_cannot_be_read_is_refused_at_once(server: Running, odd: str) -> None:
    answer = await rest(await connected(server, request(server, "GET /ws/events", UPGRADE + odd, is_known=False)))
    assert answer.startswith(b"HTTP/1.1 400 ")


async def opened(server: Running) -> Peer:
    reader, writer = await connected(server, request(server, "GET /ws/events", UPGRADE))
    assert b"101" in await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def test_a_peer_that_pings_and_never_reads_is_released(hasty: Running) -> None:
    _, writer = await opened(hasty)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    sent = 0
    with pytest.raises(ConnectionError):
        async with asyncio.timeout(10):
            while True:
                writer.write(PING * 1000)
                sent += 1000 * len(PING)
                await writer.drain()
    assert sent > 1 << 20


async def test_a_message_of_endless_empty_parts_ends_the_socket(server: Running) -> None:
    reader, writer = await opened(server)
    writer.write(b"\x01\x80\0\0\0\0" + EMPTY_PART * (MOST_FRAGMENTS + 1))
    assert b"fragments" in await rest((reader, writer))


async def test_frames_before_the_socket_is_open_are_not_an_error_here(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            reader, writer = await connected(server, request(server, "GET /ws/events", UPGRADE))
            writer.write(PING)
            await writer.drain()
            writer.write(PING)
            writer.write_eof()
            await rest((reader, writer))
        refused = await rest(await connected(server, request(server, "GET /ws/events", UPGRADE, is_known=False)))
    assert refused.startswith(b"HTTP/1.1 401 ")
    assert caplog.records == []


async def test_nothing_that_strangers_send_and_no_query_comes_into_the_log(
    server: Running, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        await rest(await connected(server, b"\x16\x03\x01\x02\r\n\r\n"))
        upgrade = "Connection: Upgrade, close\r\nUpgrade: h2c"
        await rest(await connected(server, request(server, "GET /healthz", upgrade, is_known=False)))
        await rest(await connected(server, request(server, f"GET /ws/events?token={token}", UPGRADE, is_known=False)))
        reader, writer = await connected(server, request(server, f"GET /ws/events?token={token}", UPGRADE))
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
    assert token not in caplog.text
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize("line", ["GET /ws/events", "POST /ws/events", "HEAD /ws/events"])
async def test_a_refused_upgrade_is_dressed_like_every_answer(server: Running, line: str) -> None:
    for changed in (("13", "12"), ("Sec-WebSocket-Key", "X-Key"), ("AAAA==", "A=")):
        sent = request(server, line, UPGRADE.replace(*changed), is_known=False)
        answer = await rest(await connected(server, sent))
        assert answer.startswith(b"HTTP/1.1 400 ")
        for header in (b"application/problem+json", b"x-request-id: ", b"nosniff", b"no-store"):
            assert header in answer
