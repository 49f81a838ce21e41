"""Deadlines of questions on the command line: shown while they run, and no answer is taken after them."""

import asyncio
from pathlib import Path

import pytest

from perdure import Perdure
from perdure.app.system import SystemClock
from perdure.kernel.moments import moment
from tests.interfaces.cli.terminal import Terminal
from tests.waiting import unanswered_goal

HOUR_US = 3_600_000_000
FLOW = """
from perdure import flow

@flow
async def waits(goal):
    await goal.signal("paid", timeout_s=3600)

@flow
async def hurries(goal):
    try:
        await goal.signal("paid", timeout_s=0.05)
    except TimeoutError:
        await goal.ask("Publish?", timeout_s=0.05)
"""


def unanswered(ready: Path, until_us: int) -> str:
    async def make() -> str:
        async with Perdure.open() as p:
            return await unanswered_goal(p.database.state_store(), ready, until_us)

    return asyncio.run(make())


def test_a_late_answer_is_a_conflict_that_says_when_the_question_timed_out(perdure: Terminal, ready: Path) -> None:
    until_us = SystemClock().now_us() - HOUR_US
    goal = unanswered(ready, until_us)
    for answer in (("yes",), ("sure.1", "yes")):
        assert perdure("goal", "answer", goal, *answer) == 4
        assert f"sure.1 timed out at {moment(until_us)}." in perdure.err
        assert "Recorded" not in perdure.err
    assert perdure.json("goal", "show", goal)["pending"] == []
    assert perdure.goals()[0]["last_seq"] == 2


def test_a_question_is_shown_with_its_deadline_and_answered_before_it(perdure: Terminal, ready: Path) -> None:
    until_us = SystemClock().now_us() + HOUR_US
    goal = unanswered(ready, until_us)
    assert perdure("goal", "show", goal) == 0
    assert f"sure asks: Publish? (yes, no), until {moment(until_us)}" in " ".join((perdure.out + perdure.err).split())
    assert perdure.json("goal", "show", goal)["questions"][0]["until"].startswith(moment(until_us)[:10])
    assert perdure("goal", "answer", goal, "yes") == 0


def test_a_signal_is_shown_with_its_deadline_and_what_timed_out_as_that(
    perdure: Terminal, ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ready / "flow_with_deadlines.py").write_text(FLOW)
    monkeypatch.syspath_prepend(str(ready))
    assert perdure("run", "--flow", "flow_with_deadlines:waits") == 5
    assert "waits for the signal paid, until 20" in " ".join((perdure.out + perdure.err).split())
    assert perdure("run", "--flow", "flow_with_deadlines:hurries") == 1
    goal = perdure.newest()
    calls = perdure.json("goal", "show", goal)["calls"]
    assert [call["state"] for call in calls] == ["timed out", "timed out"]
