"""A `once` step that the cancel of its goal cuts off is shown with what is known of its effect, on each store."""

import asyncio
from typing import Any

import pytest

from perdure import Goal, GoalHandle, Happened, flow
from perdure.app.goals.details import read_detail
from perdure.app.goals.goals import Goals
from perdure.kernel.calls import running_calls

BEGUN = [asyncio.Event()]


@pytest.fixture(autouse=True)
def fresh() -> None:
    BEGUN[0] = asyncio.Event()


async def send() -> str:
    BEGUN[0].set()
    await asyncio.Event().wait()
    return "sent"


def was_sent() -> Happened[str]:
    return Happened("sent")


def was_not_sent() -> bool:
    return False


async def never_answers() -> bool:
    return await asyncio.Event().wait()


def breaks() -> bool:
    raise ValueError("no connection")


CHECKS = {"sent": was_sent, "not sent": was_not_sent, "never": never_answers, "breaks": breaks}


@flow
async def order(goal: Goal, check: str | None) -> str:
    options = goal.options(check=CHECKS[check]) if check else goal.options()
    return await options.step(send)


async def cancelled(goals: Goals, check: str | None) -> tuple[GoalHandle[str], Any]:
    handle = await goals.start(order, check)
    await BEGUN[0].wait()
    assert (await handle.cancel()).status == "cancelled"
    [step] = (await read_detail(goals, await goals.get(handle.id))).wire()["timeline"]
    return handle, step


@pytest.mark.parametrize(
    ("check", "state", "output"),
    [
        (None, "cancelled, effect unknown", None),
        ("sent", "cancelled, effect happened", "sent"),
        ("not sent", "cancelled, no effect", None),
        ("breaks", "cancelled, effect unknown", None),
    ],
)
async def test_the_check_of_a_step_that_is_cut_off_is_asked(
    goals: Goals, check: str | None, state: str, output: str | None
) -> None:
    handle, step = await cancelled(goals, check)
    outcome = (await goals.state(handle.id)).calls["/send#0.1"].outcome
    assert outcome is not None
    assert (step["state"], outcome.output) == (state, output)
    assert step["error"]["message"].startswith("The goal was cancelled while this ran; ")


async def test_a_check_that_does_not_answer_does_not_keep_the_goal_from_ending(
    goals: Goals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_calls, "_CHECK_S", 0.01)
    _, step = await cancelled(goals, "never")
    assert step["state"] == "cancelled, effect unknown"
