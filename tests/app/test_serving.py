"""The worker of a server: what cannot go on is left in peace for a while, and goes on when somebody does something."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure import Goal, Perdure, flow
from perdure.app.goals.new_goal import of_command, of_flow
from perdure.app.workers.background import POLL_S
from tests.app.serving import at_work, become

RESUME_FAILED = "resuming "


def first() -> str:
    return "first"


def other() -> str:
    return "other"


@dataclass
class Code:
    """What the flow does first, as somebody edits it."""

    step = staticmethod(first)


@flow
async def edited(goal: Goal) -> str:
    done = await goal.step(Code.step)
    return f"{done}, {await goal.ask('Go on?', ['yes', 'no'])}"


@pytest.fixture
async def p(tmp_path: Path) -> AsyncIterator[Perdure]:
    async with Perdure.open(tmp_path / "home") as p:
        yield p


async def test_a_goal_whose_code_was_changed_is_not_tried_again_and_again(
    p: Perdure, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with at_work(p) as serving:
        goal = await serving.start(of_flow(edited, [], {}))
        await become(p, goal.id, "waiting")
    await p.goals.decide(goal.id, "answer", value="yes")
    before = [event.seq for event in await p.goals.history(goal.id)]
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, "perdure.app.workers.background"):
        patched.setattr(Code, "step", staticmethod(other))
        async with at_work(p) as serving:
            for _ in range(3_000):
                if RESUME_FAILED in caplog.text:
                    break
                await asyncio.sleep(0.01)
            await asyncio.sleep(3 * POLL_S)  # long enough for many tries, if there were any
            assert caplog.text.count(RESUME_FAILED) == 1
    assert [event.seq for event in await p.goals.history(goal.id)] == before
    async with at_work(p):
        assert (await become(p, goal.id, "done")).summary.status == "done"


async def test_goals_whose_steps_had_to_be_ended_are_counted(p: Perdure) -> None:
    async with at_work(p) as serving:
        await serving.start(of_command("sleep 60"))
        await serving.start(of_command("sleep 60"))
        serving.end_wait()
        await serving.close()
        assert serving.cut_short == 2


@flow
async def pressing(goal: Goal, where: str) -> None:
    if where == "body":
        raise KeyboardInterrupt
    if where == "step":
        await goal.step(press)
    if where == "async step":
        await goal.step(press_later)
    await goal.gather(goal.step(press), goal.step(first))


def press() -> None:
    raise KeyboardInterrupt


async def press_later() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["body", "step", "async step", "branch"])
async def test_code_that_presses_ctrl_c_itself_ends_its_goal_and_not_the_server(
    p: Perdure, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, monkeypatch.undo)  # as a server hears it
    try:
        async with at_work(p) as serving:
            goal = await serving.start(of_flow(pressing, [where], {}))
            assert (await become(p, goal.id, "failed")).reason in ("failed", "fatal_error")
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
