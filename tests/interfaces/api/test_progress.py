"""What a step reports while it runs: followers of the goal get the newest of it between the events, as it comes."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from perdure import Goal, GoalWaiting, current_step, flow
from perdure.app import Perdure
from perdure.app.access.token import read_token
from perdure.client import CallProgress
from tests.app.feeds import until
from tests.interfaces.api.serving import Served
from tests.interfaces.api.test_streams import heard, opened

REPORT: CallProgress = {"call_id": "/upload#0.1", "text": '{"percent":10}'}
WAIT_S = 30


class Gates:
    """What the step waits for: a follower before it reports, and that its report was seen."""

    def __init__(self) -> None:
        self.is_followed, self.is_seen = threading.Event(), threading.Event()

    def open(self) -> None:
        self.is_followed.set()
        self.is_seen.set()


GATES = [Gates()]


@pytest.fixture
def gates() -> Iterator[Gates]:
    GATES[0] = Gates()
    yield GATES[0]
    GATES[0].open()


def upload() -> str:
    assert GATES[0].is_followed.wait(WAIT_S)
    current_step().progress({"percent": 10})
    assert GATES[0].is_seen.wait(WAIT_S)
    return "there"


@flow
async def uploading(goal: Goal) -> str:
    await goal.ask("Upload?")
    return await goal.options(name="upload").step(upload)


async def parked(home: Perdure) -> str:
    with pytest.raises(GoalWaiting) as waiting:
        await home.goals.run(uploading)
    return waiting.value.id


@pytest.fixture(params=["by the server", "beside it"])
async def goal_id(request: pytest.FixtureRequest, plain: Served, gates: Gates) -> str:  # noqa: ARG001 (before the step)
    """A goal whose step runs: on a thread of the server, or on the loop of the process that also serves."""
    goal_id = await parked(plain.p)
    await plain.client.goals.decide(goal_id, "answer", value="yes")
    if request.param == "by the server":
        await plain.client.goals.resume(goal_id)
    else:
        resuming = asyncio.create_task(plain.p.goals.resume(goal_id))
        resuming.add_done_callback(lambda task: task.exception())  # a test that fails closes the home before its end
    return goal_id


async def test_a_socket_gets_the_progress_of_a_step_between_its_start_and_its_outcome(
    plain: Served, goal_id: str, gates: Gates
) -> None:
    async with opened(plain.server, read_token(plain.p.settings.home), f"/ws/goals/{goal_id}") as socket:
        frames: list[dict[str, Any]] = []
        while REPORT["call_id"] not in json.dumps(frames):
            frames.append(await heard(socket))
        gates.is_followed.set()
        assert await heard(socket) == {"type": "progress", **REPORT}
        gates.is_seen.set()
        outcome = await heard(socket)
    assert (outcome["type"], outcome["event"]["type"]) == ("event", "tool_output")
    assert outcome["event"]["payload"]["call_id"] == REPORT["call_id"]
    history = [event async for event in plain.client.goals.events(goal_id)]
    assert "percent" not in json.dumps(history), "progress is never stored"


def _is_followed(home: Perdure, goal_id: str) -> bool:
    tail = home.goals.feed._tails.get(goal_id)
    return tail is not None and tail.last_seq > 0


async def test_server_sent_events_have_progress_without_an_id(plain: Served, goal_id: str, gates: Gates) -> None:
    blocks: list[str] = []
    headers = {"Accept": "text/event-stream"}
    async with plain.http.stream("GET", f"/goals/{goal_id}/events", headers=headers) as stream:
        text = ""
        async for some in stream.aiter_text():
            text += some
            *whole, text = text.split("\n\n")
            blocks += whole
            if not gates.is_followed.is_set() and any(REPORT["call_id"] in block for block in blocks):
                await until(lambda: _is_followed(plain.p, goal_id))  # the first page is read before that
                gates.is_followed.set()
            if any(block.startswith("event: progress") for block in blocks):
                gates.is_seen.set()
    (progress,) = [block for block in blocks if not block.startswith("id: ")]
    assert progress.splitlines()[0] == "event: progress"
    assert json.loads(progress.splitlines()[1].removeprefix("data: ")) == REPORT
    events = [block.splitlines() for block in blocks if block != progress]
    assert all(lines[1] == "event: event" for lines in events)
    assert blocks.index(progress) == len(blocks) - 3, "before the outcome and the end of the goal"


async def test_a_client_is_called_with_progress_and_given_the_events(plain: Served, goal_id: str, gates: Gates) -> None:
    reports: list[CallProgress] = []

    def on_progress(report: CallProgress) -> None:
        reports.append(report)
        gates.is_seen.set()

    seen: list[str] = []
    async for event in plain.client.goals.follow(goal_id, on_progress=on_progress):
        seen.append(event["type"])
        if event["type"] == "action" and len(seen) > 2:
            gates.is_followed.set()
    assert reports == [REPORT]
    assert seen == ["goal", "action", "decision", "action", "tool_output", "termination"]


async def test_a_client_that_wants_no_progress_follows_the_same_events(
    plain: Served, goal_id: str, gates: Gates
) -> None:
    gates.open()
    seen = [event["type"] async for event in plain.client.goals.follow(goal_id)]
    assert seen == ["goal", "action", "decision", "action", "tool_output", "termination"]
