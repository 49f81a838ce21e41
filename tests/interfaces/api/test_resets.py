"""Clients that reset a connection: nothing of it stays in memory, and nothing comes into the log."""

import asyncio
import gc
import logging
import socket
import struct
from contextlib import suppress

import pytest

from perdure.interfaces.api.protocols.http import MOST_HEADERS, TimeoutHttp
from perdure.interfaces.api.protocols.patience import Farewell
from perdure.interfaces.api.server import Running
from tests.interfaces.api.test_stalls import until
from tests.interfaces.api.test_wire import UPGRADE, Peer, connected, request, rest

RESETS = 20
AT_ONCE = struct.pack("ii", 1, 0)
"""As SO_LINGER: closing resets the connection."""
SHORT = b"not HTTP\r\n\r\n"


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """What is tried here has nothing to do with the database."""
    return str(request.param)


def reset(peer: Peer) -> None:
    _, writer = peer
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    writer.transport.abort()


def count_protocols() -> int:
    return sum(isinstance(each, TimeoutHttp) for each in gc.get_objects())


@pytest.mark.parametrize("line", ["GET /healthz", "GET /api/v1/goals"])
async def test_a_reset_connection_is_freed_at_once(server: Running, line: str) -> None:
    gc.collect()
    before = count_protocols()
    gc.disable()
    try:
        for _ in range(RESETS):
            peer = await connected(server, request(server, line))
            await peer[0].readuntil(b"\r\n\r\n")
            reset(peer)
        await until(lambda: len(server.connections) == 0)
        await until(lambda: count_protocols() <= before)
    finally:
        gc.enable()


@pytest.mark.parametrize("count", [MOST_HEADERS - 2, 3500])
async def test_a_request_with_too_many_headers_is_rejected(server: Running, count: int) -> None:
    headers = ["a:"] * (count - 1)
    sent = request(server, "GET /healthz", *headers, "Connection: close", is_known=False)
    answer = await rest(await connected(server, sent))
    expected = b"HTTP/1.1 200 " if count <= MOST_HEADERS else b"HTTP/1.1 400 "
    assert answer.startswith(expected)


async def test_a_connection_that_became_a_socket_keeps_no_request(server: Running) -> None:
    gc.collect()
    before = count_protocols()
    gc.disable()
    try:
        peer = await connected(server, request(server, "GET /ws/events", UPGRADE.strip()))
        await peer[0].readuntil(b"\r\n\r\n")
        assert count_protocols() <= before
        reset(peer)
    finally:
        gc.enable()


async def test_a_farewell_to_a_client_that_has_reset_drops_the_connection_without_a_deadline() -> None:
    accepted = asyncio.get_running_loop().create_future()
    listener = await asyncio.start_server(lambda _, writer: accepted.set_result(writer), "127.0.0.1", 0)
    async with listener:
        sender = socket.create_connection(listener.sockets[0].getsockname())
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        transport = (await accepted).transport
        sender.close()  # the event loop has no turn between this and the next line
        farewell = Farewell(transport)
        farewell.begin()
        assert transport.is_closing()
        assert not farewell.has_begun


async def test_a_client_that_resets_while_its_body_is_rejected_leaves_nothing_in_the_log(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    declared = ("Content-Type: application/json", f"Content-Length: {1 << 20}")
    sent = request(server, "POST /api/v1/goals", *declared, is_known=False, body="x" * (1 << 19))

    def send_and_reset() -> None:
        with socket.create_connection(("127.0.0.1", server.surface.access.port)) as sender, suppress(OSError):
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            sender.sendall(sent)

    with caplog.at_level(logging.WARNING):
        for _ in range(RESETS):
            await asyncio.gather(*(asyncio.to_thread(send_and_reset) for _ in range(6)))
        await until(lambda: len(server.connections) == 0)
    assert caplog.records == []


async def test_bytes_that_are_not_http_and_a_reset_leave_nothing_in_the_log(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(RESETS):
            sender = socket.create_connection(("127.0.0.1", server.surface.access.port))
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            sender.sendall(SHORT)
            sender.close()
        await until(lambda: len(server.connections) == 0)
    assert caplog.records == []
