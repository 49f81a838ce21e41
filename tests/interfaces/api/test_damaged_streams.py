"""Streams and sockets of a goal whose stored events are damaged; on both databases."""

import json

import pytest
from websockets.exceptions import ConnectionClosed

from perdure import Damaged
from perdure.interfaces.api.connections import CloseCode
from tests.interfaces.api.serving import Served
from tests.interfaces.api.test_approvals import damage
from tests.interfaces.api.test_goals import ASKS, waiting
from tests.interfaces.api.test_streams import opened


@pytest.fixture
async def damaged(there: Served) -> str:
    goal_id = str((await waiting(there.client, (await there.client.goals.create(plan=ASKS))["id"]))["id"])
    await damage(there, goal_id)
    return goal_id


async def test_a_socket_of_a_damaged_goal_gets_an_error_frame_and_a_code_of_its_own(
    there: Served, damaged: str
) -> None:
    token = there.server.surface.access.token.read() or ""
    frames = []
    async with opened(there.server, token, f"/ws/goals/{damaged}") as socket:
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                frames.append(json.loads(await socket.recv()))
    assert (frames[-1]["type"], frames[-1]["code"]) == ("error", "damaged")
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == CloseCode.DAMAGED


async def test_a_browser_that_reconnects_to_the_stream_of_a_damaged_goal_is_stopped_by_a_500(
    there: Served, damaged: str
) -> None:
    here, accept = f"/goals/{damaged}/events", {"Accept": "text/event-stream"}
    readable = await there.http.get(here, headers=accept)
    assert (readable.status_code, readable.text.count("\ndata: ")) == (200, 1)
    answer = await there.http.get(here, headers={**accept, "Last-Event-ID": "1"})
    assert (answer.status_code, answer.json()["code"]) == (500, "damaged")


async def test_a_client_that_follows_a_damaged_goal_is_notified_and_does_not_reconnect(
    there: Served, damaged: str
) -> None:
    with pytest.raises(Damaged):
        async for _ in there.client.goals.follow(damaged):
            pass
