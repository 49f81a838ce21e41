"""Deadlines of questions on the command line: shown while they run, and no answer is taken after them."""

import asyncio
import importlib
from pathlib import Path

import pytest

from perdure import Perdure
from perdure.app.home.system import SystemClock
from perdure.interfaces.cli.output.times import deadline_moment
from perdure.text.moments import moment, moment_us
from tests.interfaces.cli.terminal import Terminal
from tests.interfaces.cli.test_flows import forget
from tests.waiting import unanswered_goal

HOUR_US = 3_600_000_000
FLOW = """
from perdure import Retry, flow

@flow
async def waits(goal):
    await goal.signal("paid", timeout_s=3600)

@flow
async def hurries(goal):
    try:
        await goal.signal("paid", timeout_s=0.05)
    except TimeoutError:
        await goal.ask("Publish?", timeout_s=0.5)

@flow
async def asks(goal):
    return await goal.ask("Publish?", ["yes", "no"], timeout_s=45)

@flow
async def asks_in_a_long_block(goal):
    async with goal.timeout(45):
        return await goal.ask("Publish?", ["yes", "no"])

@flow
async def asks_beside_a_signal(goal):
    async def late():
        try:
            await goal.signal("never", timeout_s=45)
        except TimeoutError:
            return "late"

    return (await goal.first(late(), goal.ask("Publish?", ["yes", "no"])))[1]

@flow
async def asks_in_a_child(goal):
    return await goal.child(asks)

@flow
async def naps_and_asks(goal):
    async def nap():
        await goal.sleep(0.3)
        await goal.step(fail_never)

    return (await goal.gather(nap(), goal.ask("Publish?", ["yes", "no"], timeout_s=45)))[1]

def fail_never():
    pass

@flow
async def asks_in_a_block(goal):
    try:
        async with goal.timeout(0.5):
            return await goal.ask("Publish?", ["yes", "no"])
    except TimeoutError:
        return "too late"

@flow
async def asks_beside_a_block(goal, seconds):
    async def block():
        try:
            async with goal.timeout(seconds):
                await goal.signal("never")
        except TimeoutError:
            return "too late"

    return await goal.gather(block(), goal.ask("Publish?", ["yes", "no"]))

def fail():
    raise ValueError("not yet")

@flow
async def tries_again(goal):
    await goal.options(effect="idempotent", retry=Retry(3, initial=3600)).step(fail)
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
        assert f"sure.1 timed out at {moment(until_us)}. Next: perdure goal resume {goal}\n" in perdure.err
        assert "Recorded" not in perdure.err
    assert perdure.json("goal", "show", goal)["pending"] == []
    assert perdure.goals()[0]["last_seq"] == 2


def test_a_question_that_timed_out_is_overdue_and_resumed_not_answered(perdure: Terminal, ready: Path) -> None:
    until_us = SystemClock().now_us() - HOUR_US
    goal = unanswered(ready, until_us)
    assert perdure("goal", "show", goal) == 0
    assert f"{goal}: waiting (person, overdue since {moment(until_us)})\n" in perdure.out
    assert f"sure.1 timed out at {moment(until_us)}. Resume it.\n  perdure goal resume {goal}\n" in perdure.out
    assert "goal answer" not in perdure.out
    assert perdure("goal", "list") == 0
    assert f"overdue since {deadline_moment(until_us, SystemClock().now_us())}" in perdure.out
    [listed] = perdure.goals()
    assert listed["next"][0]["command"] == f"perdure goal resume {goal}"


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
    assert perdure("run", "--flow", "flow_with_deadlines:hurries") == 5
    goal = perdure.newest()
    asyncio.run(past(goal))
    assert perdure("goal", "resume", goal) == 1
    calls = perdure.json("goal", "show", goal)["timeline"]
    assert [call["state"] for call in calls] == ["timed out", "timed out"]


@pytest.fixture
def deadlines(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ready / "flow_with_deadlines.py").write_text(FLOW)
    monkeypatch.syspath_prepend(str(ready))
    forget("flow_with_deadlines")


async def parked(flow: str, *args: object) -> str:
    """Start a goal of the module and close the home when it waits; return its id."""
    async with Perdure.open() as p:
        what = getattr(importlib.import_module("flow_with_deadlines"), flow)
        handle = await p.goals.start(what, *args)
        async with asyncio.timeout(30):
            while not any("ask" in call for call in (await p.goals.state(handle.id)).open_calls):
                await p.goals.pause()
        return handle.id


async def past(goal: str) -> None:
    """Wait until the deadline of a goal that no process runs has passed."""
    async with Perdure.open() as p, asyncio.timeout(30):
        while ((await p.goals.get(goal)).summary.due_us or 0) > SystemClock().now_us():
            await p.goals.pause()


@pytest.mark.usefixtures("deadlines")
@pytest.mark.parametrize("flow", ["asks", "asks_in_a_long_block", "asks_beside_a_signal"])
def test_a_goal_that_asks_until_soon_waits_at_once_and_is_due_at_its_deadline(perdure: Terminal, flow: str) -> None:
    began_us = SystemClock().now_us()
    assert perdure("run", "--flow", f"flow_with_deadlines:{flow}") == 5
    said = " ".join(perdure.err.split())
    goal = perdure.newest()
    assert f"goal answer {goal} ANSWER --resume" in said
    assert SystemClock().now_us() - began_us < 40_000_000, "it did not wait for the deadline"
    shown = perdure.json("goal", "show", goal)
    assert (shown["status"], shown["waiting_for"]) == ("waiting", "person")
    assert moment_us(shown["due_at"]) > began_us + 44_000_000
    assert perdure("goal", "answer", goal, "yes", "--resume") == 0
    assert perdure.json("goal", "show", goal)["output"] == "yes"


@pytest.mark.usefixtures("deadlines")
def test_a_child_that_asks_until_soon_is_named_at_once(perdure: Terminal) -> None:
    began_us = SystemClock().now_us()
    assert perdure("run", "--flow", "flow_with_deadlines:asks_in_a_child") == 5
    assert SystemClock().now_us() - began_us < 40_000_000, "it did not wait for the deadline"
    said = " ".join(perdure.err.split())
    child = next(goal["id"] for goal in perdure.goals() if goal["parent"] is not None)
    assert f"goal answer {child} ANSWER --resume" in said


@pytest.mark.usefixtures("deadlines")
def test_a_short_sleep_beside_a_question_is_slept_in_the_process(perdure: Terminal) -> None:
    assert perdure("run", "--flow", "flow_with_deadlines:naps_and_asks") == 5
    calls = perdure.json("goal", "show", perdure.newest())["timeline"]
    assert len(calls) == 3, "the step after the sleep is done"


@pytest.mark.usefixtures("deadlines")
def test_a_program_stays_with_a_goal_that_asks_until_soon() -> None:
    async def run() -> object:
        async with Perdure.open() as p:
            flow = importlib.import_module("flow_with_deadlines").asks_in_a_block
            return (await p.goals.run(flow)).value

    assert asyncio.run(run()) == "too late"


@pytest.mark.usefixtures("deadlines")
def test_an_answer_within_a_block_that_timed_out_is_late(perdure: Terminal) -> None:
    goal = asyncio.run(parked("asks_in_a_block"))
    asyncio.run(past(goal))
    assert perdure("goal", "answer", goal, "yes") == 4
    assert "/timeout#0.1 timed out at 20" in perdure.err
    assert "/ask#0.1 is asked within it. Resume the goal" in perdure.err
    assert f"Next: perdure goal resume {goal}\n" in perdure.err
    assert perdure.json("goal", "show", goal)["pending"] == []
    assert perdure("goal", "resume", goal) == 0
    shown = perdure.json("goal", "show", goal)
    assert (shown["output"], [call["state"] for call in shown["timeline"]]) == ("too late", ["timed out", "cancelled"])
    assert perdure("goal", "answer", goal, "yes") == 4
    assert "/ask#0.1 was already decided: cancel (by flow)." in perdure.err


@pytest.mark.usefixtures("deadlines")
def test_an_answer_beside_a_block_that_timed_out_is_in_time(perdure: Terminal) -> None:
    goal = asyncio.run(parked("asks_beside_a_block", 0.5))
    asyncio.run(past(goal))
    assert perdure("goal", "answer", goal, "yes", "--resume") == 0
    assert perdure.json("goal", "show", goal)["output"] == ["too late", "yes"]


@pytest.mark.usefixtures("deadlines")
def test_the_next_attempt_of_a_step_of_a_flow_is_shown(perdure: Terminal) -> None:
    async def failed_once() -> tuple[str, str | None]:
        async with Perdure.open() as p:
            handle = await p.goals.start(importlib.import_module("flow_with_deadlines").tries_again)
            async with asyncio.timeout(30):
                while not (await p.goals.state(handle.id)).settled:
                    await p.goals.pause()
            return handle.id, (await p.goals.look_into(await p.goals.get(handle.id))).next_attempt_at

    goal, in_python = asyncio.run(failed_once())
    shown = perdure.json("goal", "show", goal)
    [call] = shown["timeline"]
    assert in_python == shown["next_attempt_at"] == call["next_attempt_at"]
    wait_us = moment_us(shown["next_attempt_at"]) - moment_us(call["ended_at"])
    assert wait_us == HOUR_US
    perdure("goal", "show", goal)
    assert f"failed: ValueError, tries again at {moment(moment_us(shown['next_attempt_at']))}" in perdure.out
    assert perdure.goals()[0]["next_attempt_at"] is None
    perdure("goal", "cancel", goal)
    assert perdure.json("goal", "show", goal)["next_attempt_at"] is None


def test_a_list_has_the_deadline_of_a_question(perdure: Terminal, ready: Path) -> None:
    until_us = SystemClock().now_us() + 40 * 24 * HOUR_US
    unanswered(ready, until_us)
    perdure("goal", "list")
    assert f"waiting: person until {deadline_moment(until_us, SystemClock().now_us())}" in perdure.out
