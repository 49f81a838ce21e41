"""Failed goals retried over HTTP, on a real server: once for a key, and followed past their first end."""

import asyncio
import os
import secrets
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure import Conflict
from perdure.app import Perdure
from perdure.app.change_feed.history_tail import HistoryTail
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.client import Client
from perdure.errors import PerdureError
from perdure.interfaces.api.server import Running
from perdure.interfaces.api.streams import updates
from perdure.kernel.loop import Loop
from perdure.kernel.ports import Summary
from tests.app.serving import become
from tests.interfaces.api.test_streams import events_of, heard, opened

PLAN = "goal: print\nsteps:\n  - {id: fetch, exec: [echo, hi]}\n  - {id: print, exec: [cat, PAPER], needs: [fetch]}\n"


async def failed(client: Client, home: Perdure, paper: Path) -> str:
    goal = await client.goals.create(plan=PLAN.replace("PAPER", str(paper)))
    await become(home, goal["id"], "failed")
    return goal["id"]


async def test_a_failed_goal_is_retried_by_the_server(client: Client, home: Perdure, tmp_path: Path) -> None:
    goal_id = await failed(client, home, tmp_path / "paper")
    (tmp_path / "paper").touch()
    retried = await client.goals.retry(goal_id, reason="paper is back", limits={"iterations": 50})
    assert retried["status"] in ("running", "done")
    assert (await become(home, goal_id, "done")).summary.queue == "server"
    events = [event async for event in client.goals.events(goal_id)]
    (reopened,) = [event["payload"] for event in events if event["type"] == "reopened"]
    assert (reopened["by"], reopened["reason"], reopened["again"]) == ("person", "paper is back", ["print.1"])


async def test_the_same_key_retries_once_and_another_body_is_refused(
    client: Client, home: Perdure, tmp_path: Path
) -> None:
    goal_id, key = await failed(client, home, tmp_path / "paper"), secrets.token_hex(8)
    for _ in range(2):
        await client.goals.retry(goal_id, key=key)
        await become(home, goal_id, "failed")
    with pytest.raises(PerdureError, match="was used for another call"):
        await client.goals.retry(goal_id, reason="other", key=key)
    types = [event["type"] async for event in client.goals.events(goal_id)]
    assert types.count("reopened") == 1


async def test_the_same_key_is_accepted_again_while_the_retry_runs(
    client: Client, known: httpx.AsyncClient, home: Perdure, tmp_path: Path
) -> None:
    goal_id, key = await failed(client, home, tmp_path / "paper"), secrets.token_hex(8)
    os.mkfifo(tmp_path / "paper")  # `cat` blocks until it is written to
    for _ in range(2):
        again = await known.post(f"/api/v1/goals/{goal_id}/retry", headers={"Idempotency-Key": key})
        assert (again.status_code, again.json()["data"]["status"]) == (200, "running")
    await asyncio.to_thread((tmp_path / "paper").write_text, "paper")
    await become(home, goal_id, "done")


async def test_a_goal_that_is_done_is_a_conflict_with_the_fork_and_its_key_stays_free(
    client: Client, known: httpx.AsyncClient, home: Perdure
) -> None:
    goal, key = await client.goals.create(command="true"), secrets.token_hex(8)
    await become(home, goal["id"], "done")
    with pytest.raises(Conflict, match=f"perdure goal fork {goal['id']} --before command"):
        await client.goals.retry(goal["id"], key=key)
    again = await known.post(f"/api/v1/goals/{goal['id']}/resume", json={}, headers={"Idempotency-Key": key})
    assert again.status_code == 200


async def test_an_unknown_field_of_a_retry_is_invalid(known: httpx.AsyncClient) -> None:
    assert (await known.post("/api/v1/goals/x/retry", json={"why": "no"})).status_code == 422


async def test_a_follower_of_a_reopened_goal_sees_both_ends(
    client: Client, home: Perdure, server: Running, token: str, tmp_path: Path
) -> None:
    goal_id = await failed(client, home, tmp_path / "paper")
    first = [event["seq"] async for event in client.goals.follow(goal_id)]
    async with opened(server, token, "/ws/events") as socket:
        assert await heard(socket) == {"type": "goals", "goals": []}
        await client.goals.retry(goal_id)
        frames: list[Any] = [await heard(socket)]
        while frames[-1]["goal"]["status"] != "failed":
            frames.append(await heard(socket))
        assert {frame["goal"]["id"] for frame in frames} == {goal_id}
    later = [event["type"] async for event in client.goals.follow(goal_id, after_seq=first[-1])]
    assert (later[0], later[-1]) == ("reopened", "termination")
    whole = [event["type"] async for event in client.goals.follow(goal_id)]
    assert whole.count("termination") == 2


async def test_a_stream_of_a_reopened_goal_begins_again(
    client: Client, known: httpx.AsyncClient, home: Perdure, tmp_path: Path
) -> None:
    goal_id = await failed(client, home, tmp_path / "paper")
    path, stream = f"/api/v1/goals/{goal_id}/events", {"Accept": "text/event-stream"}
    last = (await client.goals.get(goal_id))["last_seq"]
    assert (await known.get(path, headers=stream | {"Last-Event-ID": str(last)})).status_code == 204
    await client.goals.retry(goal_id)
    async with asyncio.timeout(20):
        more = await known.get(path, headers=stream | {"Last-Event-ID": str(last)})
    assert f"id: {last + 1}\n" in more.text
    assert '"reopened"' in more.text


async def test_a_follower_continues_when_the_goal_is_reopened_while_it_reads(
    client: Client, home: Perdure, server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal_id = await failed(client, home, tmp_path / "paper")
    goals, look_up = home.goals, HistoryTail.look_up
    going_on: list[asyncio.Task[object]] = []
    reopened: list[object] = []

    async def look_up_then_reopen(tail: HistoryTail) -> Summary:
        """Let the goal be reopened after a follower has read that it is final, and before it reads the events."""
        row = await look_up(tail)
        if not reopened:
            reopened.append(await goals.reopen(goal_id, RunOptions(watch=Loop.stop)))
        return row

    monkeypatch.setattr(HistoryTail, "look_up", look_up_then_reopen)
    seen: list[str] = []
    with server.surface.connections.open() as connection:
        async with asyncio.timeout(20):
            async for page in updates(server.surface, connection, goal_id, 0):
                seen += [event.type for event in events_of(page)]
                if not going_on and "reopened" in seen:
                    going_on.append(asyncio.create_task(goals.resume_run(goal_id)))
    await asyncio.gather(*going_on)
    assert seen.count("termination") == 2
