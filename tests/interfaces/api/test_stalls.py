"""Clients that stop reading: each costs a mebibyte at most, and is told to connect again when it reads on."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from perdure.app import Perdure
from perdure.app.change_feed.history_tail import PAGE_BYTES
from perdure.app.change_feed.subscription import MAX_PENDING, Subscription
from perdure.client import Client
from perdure.interfaces.api.connections import CloseCode
from perdure.interfaces.api.server import Address, Running, running
from tests.interfaces.api.test_goals import waiting
from tests.interfaces.api.test_streams import heard
from tests.interfaces.api.test_wire import connected, request

MOST_BYTES = 1 << 20
EVENT_BYTES = 200_000
STEPS = 20


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """What is tried here has nothing to do with the database."""
    return str(request.param)


@pytest.fixture
async def hasty(home: Perdure) -> AsyncIterator[Running]:
    """A server that soon loses its patience."""
    async with running(home, Address(port=0, patience_s=1.0)) as server:
        yield server


@pytest.fixture
async def goal_id(hasty: Running) -> str:
    """A goal whose history is much more than any buffer holds."""
    steps = "".join(f"  - id: s{n}\n    exec: [printf, '%{EVENT_BYTES}d', '1']\n" for n in range(STEPS))
    token = str(hasty.surface.access.token.read())
    async with Client(hasty.url, token) as client:
        goal = await client.goals.create(plan=f"goal: much\nsteps:\n{steps}")
        async for _ in client.goals.follow(goal["id"]):
            pass
    return str(goal["id"])


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 (nobody announces it)
            await asyncio.sleep(0.005)


def deaf(server: Running, path: str) -> connect:
    """Connect as a client that leaves in the system what it does not ask for."""
    headers = {"Authorization": f"Bearer {server.surface.access.token.read()}"}
    url = server.url.replace("http", "ws") + path
    return connect(url, additional_headers=headers, proxy=None, max_queue=1, max_size=None, ping_interval=None)


async def most_buffered(server: Running) -> int:
    """Wait until the server gives up the one connection that stalls, and return how much was buffered for it."""
    most = 0
    async with asyncio.timeout(20):
        while not _is_given_up(server):
            most = max([most, *(each.get_write_buffer_size() for each in server.connections._known)])
            await asyncio.sleep(0.005)
    return most


def _is_given_up(server: Running) -> bool:
    """Tell whether a close frame was written to every socket; a stream is simply gone."""
    return all(getattr(each.get_protocol(), "close_sent", False) for each in server.connections._known)


async def code_at_the_end(socket: ClientConnection) -> int | None:
    """Read on to the end, and return the code that the socket was closed with."""
    seqs = [0]
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            frame = await heard(socket)
            seqs.append(frame.get("seq", seqs[-1] + 1))
    assert seqs == list(range(len(seqs)))
    return closed.value.rcvd.code if closed.value.rcvd else None


async def test_a_socket_that_is_not_read_costs_little_and_is_closed_with_the_code_to_resync(
    hasty: Running, goal_id: str
) -> None:
    async with deaf(hasty, f"/ws/goals/{goal_id}") as socket:
        assert 0 < await most_buffered(hasty) <= MOST_BYTES
        assert await code_at_the_end(socket) == CloseCode.RESYNC


async def test_a_builder_that_asks_and_does_not_read_is_closed_the_same_way(hasty: Running) -> None:
    session = await hasty.surface.p.forge.start("a timer for pasta")
    async with deaf(hasty, f"/ws/builder/{session.session_id}") as socket:
        asking = asyncio.create_task(_ask_without_end(socket))
        assert 0 < await most_buffered(hasty) <= MOST_BYTES
        asking.cancel()
        assert await code_at_the_end(socket) == CloseCode.RESYNC


async def _ask_without_end(socket: ClientConnection) -> None:
    while True:
        await socket.send('{"type": "resume", "id": "the same"}')


async def test_a_stream_that_is_not_read_costs_little_and_is_closed(hasty: Running, goal_id: str) -> None:
    accept = "Accept: text/event-stream"
    _, writer = await connected(hasty, request(hasty, f"GET /api/v1/goals/{goal_id}/events", accept))
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await until(lambda: bool(hasty.connections._known))
    assert 0 < await most_buffered(hasty) <= MOST_BYTES
    writer.transport.abort()


async def test_the_goals_that_have_not_ended_come_in_frames_of_a_limited_size(client: Client, server: Running) -> None:
    ids = set()
    for number in range(6):
        plan = {"goal": f"{number} {'x' * (PAGE_BYTES // 4)}", "steps": [{"id": "a", "ask": {"question": "?"}}]}
        ids.add((await waiting(client, (await client.goals.create(plan=json.dumps(plan)))["id"]))["id"])
    sizes = []
    async with deaf(server, "/ws/events") as socket:
        while ids:
            text = await asyncio.wait_for(socket.recv(), 10)
            sizes.append(len(text))
            ids -= {goal["id"] for goal in json.loads(text)["goals"]}
    assert len(sizes) > 1
    assert max(sizes) < 2 * PAGE_BYTES


async def test_the_changes_that_are_kept_for_a_subscriber_that_does_not_read_are_bounded() -> None:
    changes = Subscription()
    for number in range(2 * MAX_PENDING):
        changes.add(f"20200101-000000-goal-{number}")
    assert changes.has_missed
    assert len(await changes.wait(0)) == MAX_PENDING
