"""Deadlines of questions over HTTP: an answer after them is a conflict, and nothing is posted."""

import asyncio
from pathlib import Path

from perdure import Goal, Retry, flow
from perdure.app.home.system import SystemClock
from perdure.text.moments import iso, moment, moment_us
from tests.interfaces.api.serving import Served
from tests.waiting import unanswered_goal


async def test_a_late_answer_is_a_conflict_that_says_when_the_question_timed_out(there: Served, tmp_path: Path) -> None:
    until_us = SystemClock().now_us() - 3_600_000_000
    goal_id = await unanswered_goal(there.p.database.state_store(), tmp_path, until_us)
    asked = {"call_id": "sure.1", "decision": "answer", "value": "yes"}
    answer = await there.http.post(f"/goals/{goal_id}/decisions", json=asked)
    assert (answer.status_code, answer.json()["detail"]) == (409, f"sure.1 timed out at {moment(until_us)}.")
    assert await there.p.goals.pending(goal_id) == []
    assert (await there.p.goals.get(goal_id)).summary.last_seq == 2


async def test_approvals_have_the_deadline_of_a_question(there: Served, tmp_path: Path) -> None:
    until_us = SystemClock().now_us() + 3_600_000_000
    await unanswered_goal(there.p.database.state_store(), tmp_path, until_us)
    [approval] = (await there.http.get("/approvals")).json()["data"]
    assert approval["until"] == iso(until_us)


def fail() -> None:
    raise ValueError("not yet")


@flow
async def tries_again(goal: Goal) -> None:
    await goal.options(effect="idempotent", retry=Retry(3, initial=3600)).step(fail)


async def test_a_goal_has_the_time_of_its_next_attempt(there: Served) -> None:
    goal_id = (await there.p.goals.start(tries_again)).id
    async with asyncio.timeout(30):
        while (goal := (await there.http.get(f"/goals/{goal_id}")).json()["data"])["next_attempt_at"] is None:
            await there.p.goals.pause()
    [failed] = (await there.http.get(f"/goals/{goal_id}/events?after_seq=2")).json()["data"]
    assert moment_us(goal["next_attempt_at"]) - moment_us(failed["timestamp"]) == 3_600_000_000
    await there.client.goals.cancel(goal_id)
    assert (await there.http.get(f"/goals/{goal_id}")).json()["data"]["next_attempt_at"] is None
