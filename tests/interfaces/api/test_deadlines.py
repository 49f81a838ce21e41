"""Deadlines of questions over HTTP: an answer after them is a conflict, and nothing is posted."""

from pathlib import Path

from perdure.app.system import SystemClock
from perdure.kernel.moments import moment
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
