"""Events as they come: each once and in order, over sockets and as server-sent events, whoever writes them."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from perdure import Conflict, NotFound
from perdure.app import Perdure
from perdure.app.change_feed.history_tail import PAGE_BYTES
from perdure.app.change_feed.progress import Update
from perdure.app.change_feed.subscription import MAX_PENDING
from perdure.client import Client
from perdure.interfaces.api.connections import CloseCode
from perdure.interfaces.api.server import Address, Running, running
from perdure.interfaces.api.streams import updates
from perdure.kernel.events import Event
from tests.interfaces.api.test_goals import ASKS, ended, waiting


@asynccontextmanager
async def opened(server: Running, token: str, path: str) -> AsyncIterator[ClientConnection]:
    url = server.url.replace("http", "ws") + path
    async with connect(url, additional_headers={"Authorization": f"Bearer {token}"}, proxy=None) as socket:
        yield socket


async def event_heard(socket: ClientConnection) -> dict[str, Any]:
    """The event of the next frame; the frame of anything else fails the test."""
    frame = await heard(socket)
    assert frame.keys() == {"type", "event"}, frame
    event: dict[str, Any] = frame["event"]
    return event


async def heard(socket: ClientConnection) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await asyncio.wait_for(socket.recv(), 10))
    return found


def events_of(page: Sequence[Update]) -> list[Event]:
    return [each for each in page if isinstance(each, Event)]


def plan_of(steps: int) -> str:
    lines = "".join(
        f"  - id: s{n}\n    exec: echo {n}\n{f'    needs: [s{n - 1}]' if n else ''}\n" for n in range(steps)
    )
    return f"goal: count\nsteps:\n{lines}"


async def test_a_socket_gives_every_event_once_and_closes_when_the_goal_has_ended(
    client: Client, server: Running, token: str
) -> None:
    goal = await client.goals.create(plan=plan_of(20))
    seqs: list[int] = []
    async with opened(server, token, f"/ws/goals/{goal['id']}?after_seq=0") as socket:
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                seqs.append((await event_heard(socket))["seq"])
    assert seqs == list(range(1, (await client.goals.get(goal["id"]))["last_seq"] + 1))
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000


async def test_a_client_that_goes_and_returns_with_the_last_seq_gets_every_event_once(
    client: Client, server: Running, token: str
) -> None:
    goal = await client.goals.create(plan=plan_of(30))
    seqs, visits, is_over = [0], 0, False
    while not is_over:
        visits += 1
        async with opened(server, token, f"/ws/goals/{goal['id']}?after_seq={seqs[-1]}") as socket:
            is_over = await some(socket, seqs)
            socket.transport.abort()
    assert visits > 5
    assert seqs == list(range((await client.goals.get(goal["id"]))["last_seq"] + 1))


async def some(socket: ClientConnection, seqs: list[int]) -> bool:
    """Hear of seven events at most; tell whether there are no more to come."""
    try:
        for _ in range(7):
            event = await event_heard(socket)
            seqs.append(event["seq"])
    except ConnectionClosed:
        return True
    return False


async def test_events_that_another_process_writes_are_heard_of(
    client: Client, server: Running, token: str, tmp_path: Path, migrated_url: str
) -> None:
    goal = await client.goals.create(plan=ASKS)
    await waiting(client, goal["id"])
    async with (
        opened(server, token, f"/ws/goals/{goal['id']}?after_seq=2") as socket,
        Perdure.open(tmp_path / "home", database_url=migrated_url) as beside,
    ):
        await beside.goals.signal(goal["id"], "paid", 7)
        event = await event_heard(socket)
    assert (event["type"], event["seq"]) == ("signal", 3)


async def test_server_sent_events_continue_after_the_last_id(client: Client, known: httpx.AsyncClient) -> None:
    goal = await client.goals.create(plan=plan_of(5))
    last = [event["seq"] async for event in client.goals.follow(goal["id"])][-1]
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "4"}
    answer = await known.get(f"/api/v1/goals/{goal['id']}/events", headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    blocks = answer.text.strip().split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == [f"id: {seq}" for seq in range(5, last + 1)]
    assert blocks[0].splitlines()[1] == "event: event"
    assert json.loads(blocks[0].splitlines()[2].removeprefix("data: "))["seq"] == 5


async def test_all_goals_that_have_not_ended_come_first_and_then_those_that_change(
    client: Client, server: Running, token: str
) -> None:
    goal = await client.goals.create(plan=ASKS)
    await waiting(client, goal["id"])
    async with opened(server, token, "/ws/events") as socket:
        first = await heard(socket)
        assert first["type"] == "goals"
        assert goal["id"] in [each["id"] for each in first["goals"]]
        await client.goals.decide(goal["id"], "answer", value="no")
        statuses: list[str] = []
        while not statuses or statuses[-1] != "done":
            frame = await heard(socket)
            if frame["goal"]["id"] == goal["id"]:
                statuses.append(frame["goal"]["status"])


async def test_goals_that_ended_before_a_caller_listened_are_not_news(
    client: Client, server: Running, token: str
) -> None:
    before = [(await ended(client, (await client.goals.create(command="true"))["id"]))["id"] for _ in range(3)]
    async with opened(server, token, "/ws/events") as socket:
        assert (await heard(socket))["type"] == "goals"
        new = (await client.goals.create(command="true"))["id"]
        frames = [await heard(socket)]
        while (frames[-1]["goal"]["id"], frames[-1]["goal"]["status"]) != (new, "done"):
            frames.append(await heard(socket))
    assert not [frame for frame in frames if frame["goal"]["id"] in before]
    assert len(frames) == len({json.dumps(frame) for frame in frames})


async def test_a_stream_is_asked_for_in_any_spelling(client: Client, known: httpx.AsyncClient) -> None:
    goal = await ended(client, (await client.goals.create(command="true"))["id"])
    for headers in ([("Accept", "Text/Event-Stream")], [("Accept", "text/html"), ("Accept", "text/event-stream")]):
        answer = await known.get(f"/api/v1/goals/{goal['id']}/events", headers=headers)
        assert answer.headers["content-type"].startswith("text/event-stream")


async def test_a_goal_that_is_not_there_has_no_socket(client: Client, server: Running, token: str) -> None:
    with pytest.raises(NotFound):
        async for _ in client.goals.follow("20200101-000000-nothing-aaaa"):
            pass
    async with opened(server, token, "/ws/events") as socket:
        await socket.send("anything " * 1000)
        await socket.send(b"\0\xff")
        assert (await heard(socket))["type"] == "goals"


async def test_what_is_open_is_closed_when_the_server_ends(client: Client, server: Running, token: str) -> None:
    goal = await client.goals.create(plan=ASKS)
    await waiting(client, goal["id"])
    async with opened(server, token, f"/ws/goals/{goal['id']}?after_seq=2") as socket:
        server.surface.connections.end_all(CloseCode.SHUTDOWN)
        with pytest.raises(ConnectionClosed) as closed:
            await heard(socket)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1001


async def test_every_socket_learns_that_the_server_ends(home: Perdure, token: str) -> None:
    async with running(home, Address(port=0)) as ending:
        paths = ("/ws/events", f"/ws/builder/{uuid4()}")
        async with opened(ending, token, paths[0]) as first, opened(ending, token, paths[1]) as second:
            ending.end()
            for socket in (first, second):
                with pytest.raises(ConnectionClosed) as closed:
                    while True:
                        await heard(socket)
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1001


async def test_a_client_follows_a_goal_through_a_restart_of_the_server(home: Perdure, token: str) -> None:
    async with running(home, Address(port=0)) as first:
        port = first.surface.access.port
        async with Client(first.url, token) as client:
            goal = await client.goals.create(plan=ASKS)
            await waiting(client, goal["id"])
            following = client.goals.follow(goal["id"])
            seen = [(await anext(following))["seq"], (await anext(following))["seq"]]
            rest = asyncio.create_task(_seqs(following))
            first.end()
            await asyncio.wait({first.ended})
            await asyncio.sleep(0.5)  # it comes again, and finds nobody
            assert not rest.done()
            async with running(home, Address(port=port)):
                await home.goals.decide(goal["id"], "answer", value="no")
                seen += await asyncio.wait_for(rest, 30)
    assert seen == list(range(1, seen[-1] + 1))


async def _seqs(events: AsyncIterator[Any]) -> list[int]:
    return [event["seq"] async for event in events]


async def test_who_has_missed_too_much_is_asked_to_connect_again(server: Running, token: str) -> None:
    async with opened(server, token, "/ws/events") as socket:
        assert (await heard(socket))["type"] == "goals"
        (news,) = server.surface.p.goals.feed._of_all
        for number in range(MAX_PENDING + 1):
            news.add(f"20200101-000000-goal-{number}")
        with pytest.raises(ConnectionClosed) as closed:
            await heard(socket)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == CloseCode.RESYNC


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/ws/nothing", 404, "not_found"),
        ("/api/v1/goals", 404, "not_found"),
        ("/ws/goals/nothing", 404, "not_found"),
        ("/ws/goals/nothing?after_seq=-1", 422, "invalid"),
        ("/ws/goals/nothing?after_seq=x", 422, "invalid"),
    ],
)
async def test_a_socket_that_cannot_be_opened_learns_why(
    server: Running, token: str, path: str, status: int, code: str
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with opened(server, token, path):
            pass
    response = refused.value.response
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert json.loads(response.body)["code"] == code


async def test_a_stream_of_a_goal_that_has_ended_and_was_seen_tells_a_browser_not_to_come_again(
    client: Client, known: httpx.AsyncClient
) -> None:
    goal = await client.goals.create(plan=plan_of(1))
    last = [event["seq"] async for event in client.goals.follow(goal["id"])][-1]
    path, accept = f"/api/v1/goals/{goal['id']}/events", {"Accept": "text/event-stream"}
    more = await known.get(path, headers={**accept, "Last-Event-ID": str(last - 1)})
    assert (more.status_code, more.text.startswith(f"id: {last}\n")) == (200, True)
    nothing = await known.get(path, headers={**accept, "Last-Event-ID": str(last)})
    assert (nothing.status_code, nothing.content) == (204, b"")


async def test_a_socket_that_begins_after_the_end_learns_where_that_is(
    client: Client, server: Running, token: str
) -> None:
    goal = await client.goals.create(plan=plan_of(1))
    last = [event["seq"] async for event in client.goals.follow(goal["id"])][-1]
    async with opened(server, token, f"/ws/goals/{goal['id']}?after_seq={last + 1}") as socket:
        frame = await heard(socket)
        with pytest.raises(ConnectionClosed) as closed:
            await heard(socket)
    assert (frame["type"], frame["code"], frame["last_seq"]) == ("error", "conflict", last)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4409
    with pytest.raises(Conflict, match=f"events up to {last}"):
        await anext(client.goals.follow(goal["id"], after_seq=last + 1))
    assert [event async for event in client.goals.follow(goal["id"], after_seq=last)] == []


async def test_a_socket_needs_the_whole_id_of_a_goal(client: Client, server: Running, token: str) -> None:
    goal = await client.goals.create(plan=plan_of(1))
    with pytest.raises(InvalidStatus) as refused:
        async with opened(server, token, f"/ws/goals/{goal['id'][:-1]}"):
            pass
    assert refused.value.response.status_code == 404


async def test_no_more_of_a_history_is_held_for_a_connection_than_a_page_or_one_event(
    client: Client, server: Running
) -> None:
    outputs = "".join(f"  - id: s{n}\n    exec: [printf, '%200000d', '1']\n" for n in range(6))
    goal = await client.goals.create(plan=f"goal: much\nsteps:\n{outputs}")
    last = [event["seq"] async for event in client.goals.follow(goal["id"])][-1]
    with server.surface.connections.open() as connection:
        found = [events_of(page) async for page in updates(server.surface, connection, goal["id"], 0)]
    sizes = [sum(len(event.payload) for event in page) for page in found]
    assert max(sizes) > PAGE_BYTES // 2
    assert all(size <= PAGE_BYTES or len(page) == 1 for page, size in zip(found, sizes, strict=True))
    assert [event.seq for page in found for event in page] == list(range(1, last + 1))
