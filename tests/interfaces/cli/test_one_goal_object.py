"""A goal is one object: what `run`, `goal show` and `goal watch` print with `--json`, and what HTTP answers with."""

import asyncio
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from websockets.asyncio.client import ClientConnection, connect

from perdure import Perdure
from perdure.app.access.token import read_token
from perdure.app.wire.resources.goals import Goal, GoalDetail
from perdure.client import Client
from perdure.interfaces.api.server import Address, running
from perdure.store.goals.sql_state_store import SqlStateStore
from tests.interfaces.cli.terminal import Terminal

ENDED = {
    "done": "{id: a, exec: 'true'}",
    "failed": "{id: a, exec: 'false'}",
}
WAITING = {
    "question": "{id: a, ask: {question: 'Which?', options: [red, blue]}}, {id: b, exec: 'true', needs: [a]}",
    "timer": "{id: a, wait: 2h}",
}


async def over_http(goal_id: str) -> GoalDetail:
    async with (
        Perdure.open() as p,
        running(p, Address(port=0)) as server,
        Client(server.url, read_token(p.settings.home)) as client,
    ):
        return await client.goals.get(goal_id)


async def post(goal_id: str, content: dict[str, Any]) -> None:
    """Post a signal, and leave it to the next worker of the goal."""
    async with Perdure.open() as p:
        await p.database.state_store().post(goal_id, "signal", content, key="once")


def ran(perdure: Terminal, steps: str, *more: str) -> dict[str, Any]:
    Path("plan.yaml").write_text(f"goal: x\nsteps: [{steps}]")
    perdure("run", "--plan", "plan.yaml", "--key", "nightly", "--tag", "night", "--json", *more)
    found: dict[str, Any] = json.loads(perdure.out)
    return found


@pytest.mark.parametrize("kind", ENDED)
def test_run_show_watch_and_http_give_the_same_object_of_a_goal_that_has_ended(perdure: Terminal, kind: str) -> None:
    goal = ran(perdure, ENDED[kind])
    assert goal.keys() == GoalDetail.__annotations__.keys()
    assert perdure.json("goal", "show", goal["id"]) == goal
    assert perdure.json("goal", "watch", goal["id"]) == goal
    assert asyncio.run(over_http(goal["id"])) == goal
    assert (goal["status"], goal["key"], [call["step"] for call in goal["timeline"]]) == (kind, "nightly", ["a"])


@pytest.mark.parametrize("kind", WAITING)
def test_run_show_and_http_give_the_same_object_of_a_goal_that_waits(perdure: Terminal, kind: str) -> None:
    goal = ran(perdure, WAITING[kind])
    assert goal["status"] == "waiting"
    assert perdure.json("goal", "show", goal["id"]) == goal
    assert asyncio.run(over_http(goal["id"])) == goal


def test_what_was_posted_to_a_goal_is_pending_everywhere(perdure: Terminal) -> None:
    goal_id = ran(perdure, WAITING["question"])["id"]
    content = {"name": "paid", "payload": {"order": 7}}
    asyncio.run(post(goal_id, content))
    goal = perdure.json("goal", "show", goal_id)
    (posted,) = goal["pending"]
    assert (posted["kind"], posted["payload"]) == ("signal", content)
    assert asyncio.run(over_http(goal_id)) == goal


def test_a_goal_at_its_limit_says_the_same_everywhere(perdure: Terminal) -> None:
    goal = ran(perdure, "{id: a, exec: 'true'}, {id: b, exec: 'true', needs: [a]}", "--max-iterations", "1")
    assert (goal["limits"]["reached"], goal["limits"]["iterations"]) == ("iterations", {"limit": 1, "used": 1})
    assert perdure.json("goal", "show", goal["id"]) == goal
    assert asyncio.run(over_http(goal["id"])) == goal


def test_an_ephemeral_goal_has_the_same_keys(perdure: Terminal) -> None:
    assert perdure.json("run", "--ephemeral", "--", "true").keys() == GoalDetail.__annotations__.keys()


async def lists_over_http() -> tuple[list[Goal], list[Goal]]:
    """Return the goals that have not ended, as `GET /goals` and as `/ws/events` have them."""
    async with Perdure.open() as p, running(p, Address(port=0)) as server:
        token = read_token(p.settings.home)
        async with Client(server.url, token) as client:
            listed = [goal async for goal in client.goals.each(status="waiting")]
        url = f"{server.url.replace('http', 'ws', 1)}/ws/events"
        async with connect(url, additional_headers={"Authorization": f"Bearer {token}"}, proxy=None) as socket:
            return listed, await first_goals(socket)


async def first_goals(socket: ClientConnection) -> list[Goal]:
    frame = orjson.loads(await socket.recv())
    assert frame["type"] == "goals"
    goals: list[Goal] = frame["goals"]
    return goals


def test_a_list_has_the_goal_without_its_history_and_reads_no_event(
    perdure: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    detail = ran(perdure, WAITING["question"])
    loads: list[str] = []
    load = SqlStateStore.load

    async def counted(store: SqlStateStore, goal_id: str, **part: Any) -> Any:
        loads.append(goal_id)
        return await load(store, goal_id, **part)

    monkeypatch.setattr(SqlStateStore, "load", counted)
    (listed,) = perdure.json("goal", "list")["goals"]
    assert loads == []
    over_rest, over_socket = asyncio.run(lists_over_http())
    assert loads == []
    assert over_rest == over_socket == [listed]
    assert listed.keys() == Goal.__annotations__.keys()
    unknown = {"next": listed["next"], "tokens": None}
    assert listed == {key: detail[key] for key in listed} | unknown
    assert perdure.json("goal", "show", listed["id"])["tokens"] == 0
    assert loads == [listed["id"]]
