"""Decisions on one call at the same moment, through two servers of one home and the command line, on both databases."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure.interfaces.cli.errors import run
from tests.interfaces.api.serving import Served, served
from tests.waiting import RIVALS, WaitsFor, waiting_goal

ROUNDS = 5


@pytest.fixture
async def beside(there: Served, tmp_path: Path, database_url: str) -> AsyncIterator[Served]:
    """A second server of the same home."""
    async with served(tmp_path / "home", database_url) as found:
        assert found.server.url != there.server.url
        yield found


async def settled(there: Served, goal_id: str) -> str:
    """Return the one decision on a goal, when it is recorded or left to whoever runs the goal."""
    goals = there.p.goals
    pending = [row.payload["decision"] for row in await goals.pending(goal_id)]  # first: a worker may record it now
    recorded = [event.content()["decision"] for event in await goals.history(goal_id) if event.type == "decision"]
    assert len(recorded) <= 1
    (decision,) = {*pending, *recorded}
    return str(decision)


@pytest.mark.parametrize("waits_for", ["unknown", "approval"])
async def test_of_two_servers_one_acknowledges_and_the_other_says_what_was_decided(
    there: Served, beside: Served, tmp_path: Path, waits_for: WaitsFor
) -> None:
    for number in range(ROUNDS):
        folder = tmp_path / f"work{number}"
        folder.mkdir()
        store = there.p.database.state_store()
        goal_id = await waiting_goal(store, waits_for, folder, queue="server")
        path, verdicts = f"/goals/{goal_id}/decisions", RIVALS[waits_for]
        waiting = await there.client.goals.approvals()
        shown = {each["goal_id"]: each["shown_sha256"] for each in waiting}
        body = {"call_id": "pay.1", "shown_sha256": shown.get(goal_id)}
        asked = [
            server.http.post(path, json={**body, "decision": verdict})
            for server, verdict in zip((there, beside), verdicts, strict=True)
        ]
        answers = await asyncio.gather(*asked)
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        accepted = next(verdict for verdict, answer in zip(verdicts, answers, strict=True) if answer.is_success)
        rejected = next(answer for answer in answers if not answer.is_success)
        assert rejected.json()["detail"] == f"pay.1 was already decided: {accepted}."
        assert await settled(there, goal_id) == accepted
        if accepted == "abort":
            # a decision that was posted is acknowledged, and a worker appends it later
            assert (await there.client.goals.get(goal_id))["status"] != "done"
            assert not (folder / "paid").exists()


async def test_the_command_line_learns_what_a_server_has_acknowledged(
    there: Served, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDURE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PERDURE_DATABASE_URL", database_url)
    goal_id = await waiting_goal(there.p.database.state_store(), "unknown", tmp_path)
    await there.client.goals.decide(goal_id, "abort")
    assert await asyncio.to_thread(run, ["goal", "decide", goal_id, "pay.1", "retry"]) == 4
    assert "pay.1 was already decided: abort." in capfd.readouterr().err
