"""How many connections may be open, and who goes first: clients without the token never keep out those who have it."""

import json
import resource
from collections.abc import AsyncIterator

import pytest

from perdure.app import Perdure
from perdure.interfaces.api.protocols.connection_limit import LEAST_CONNECTIONS, RESERVE, most_connections
from perdure.interfaces.api.server import Address, Running, running
from tests.interfaces.api.test_stalls import until
from tests.interfaces.api.test_wire import UPGRADE, Peer, connected, request, rest

MOST = 3


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """What is tried here has nothing to do with the database."""
    return str(request.param)


@pytest.fixture
async def small(home: Perdure) -> AsyncIterator[Running]:
    async with running(home, Address(port=0, most_connections=MOST)) as server:
        yield server


async def answered(server: Running, *, is_known: bool) -> Peer:
    """Open a connection, ask for something, and keep it open."""
    reader, writer = await connected(server, request(server, "GET /healthz", is_known=is_known))
    assert b"200 OK" in await reader.readline()
    return reader, writer


async def is_closed(peer: Peer) -> bool:
    await rest(peer)
    return True


async def asked_again(server: Running, peer: Peer) -> bytes:
    peer[1].write(request(server, "GET /healthz", "Connection: close"))
    return await rest(peer)


async def test_at_the_limit_the_oldest_connection_without_a_token_is_closed(small: Running) -> None:
    first, second, third = [await answered(small, is_known=is_known) for is_known in (True, False, False)]
    new = await answered(small, is_known=False)
    assert await is_closed(second)
    for peer in (first, third, new):
        assert b"200 OK" in await asked_again(small, peer)


async def test_connections_that_have_said_nothing_go_before_a_client_with_the_token(small: Running) -> None:
    silent = [await connected(small, b"") for _ in range(10 * MOST)]
    socket = await connected(small, request(small, "GET /ws/events", UPGRADE))
    assert b"101" in await socket[0].readline()
    more = [await connected(small, b"") for _ in range(10 * MOST)]
    assert b"200 OK" in await asked_again(small, await answered(small, is_known=True))
    assert len(small.connections) <= MOST
    socket[1].write(b"\x88\x82\0\0\0\0" + (1000).to_bytes(2, "big"))
    assert (await rest(socket)).endswith((1000).to_bytes(2, "big"))
    for _, writer in (*silent, *more):
        writer.transport.abort()


async def test_when_all_have_shown_the_token_another_one_is_asked_to_come_later(small: Running) -> None:
    held = [await answered(small, is_known=True) for _ in range(MOST)]
    head, _, body = (await rest(await connected(small, b""))).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 1\r\n" in head
    assert json.loads(body)["code"] == "unavailable"
    for peer in held:
        assert b"200 OK" in await asked_again(small, peer)
    assert b"200 OK" in await asked_again(small, await answered(small, is_known=False))


async def test_a_connection_that_is_being_closed_does_not_wait_for_a_peer_that_never_reads(home: Perdure) -> None:
    async with running(home, Address(port=0, patience_s=0.2)) as server:
        _, writer = await answered(server, is_known=True)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        (transport,) = server.connections._known
        transport.set_write_buffer_limits(high=1 << 30)
        transport.write(bytes(8 << 20))
        transport.close()
        await until(lambda: len(server.connections) == 0)
        writer.transport.abort()


@pytest.mark.parametrize("limit", [64, 256, 1024, 4096, 65_536, resource.RLIM_INFINITY])
def test_the_files_that_goals_need_are_never_used_for_connections(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (limit, limit))
    most, files = most_connections(), 65_536 if limit == resource.RLIM_INFINITY else limit
    assert most == LEAST_CONNECTIONS or most <= min(files // 2, files - RESERVE)
