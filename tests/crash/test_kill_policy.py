"""A step with a retry policy whose worker is killed by SIGKILL: attempts, deadline and usage count over the kill."""

import asyncio
from pathlib import Path

import pytest

from perdure import Goal, Retry, current_step, flow
from perdure.kernel.fold import GoalState
from perdure.kernel.history.replay import replay
from tests import children
from tests.crash.flows import note
from tests.crash.goals import counted, open_goals


class Busy(Exception):
    """What the far side answers."""


def call(folder: str, name: str) -> None:
    note(folder, name)
    current_step().usage(tokens=10)
    raise Busy(name, current_step().attempt)


@flow
async def stubborn(goal: Goal, folder: str, deadline: float) -> list[object]:
    """Try something that always fails, and return the last error that the flow is given."""
    retry = Retry(4, initial=0.05, factor=1, retry_on=Busy, deadline=deadline)
    try:
        await goal.options(effect="idempotent", retry=retry).step(call, folder, "call")
    except Busy as error:
        return [type(error).__name__, *error.args]
    return []


async def start(home: Path, url: str, folder: str, deadline: float) -> None:
    async with open_goals(home, url) as goals:
        await goals.options(key="stubborn").run(stubborn, folder, deadline)


async def resumed(home: Path, url: str) -> tuple[GoalState, str]:
    async with open_goals(home, url) as goals:
        goal_id = (await goals.list())[0].id
        await goals.resume(goal_id)
        state = await goals.state(goal_id)
        replay(await goals.history(goal_id), await goals._store.find(goal_id))
        return state, goal_id


@pytest.mark.parametrize(("point", "repeated"), [("kernel.effect.after", 1), ("store.append.after", 0)])
async def test_attempts_and_usage_count_over_a_kill(
    database_url: str, tmp_path: Path, point: str, repeated: int
) -> None:
    children.run_until(point, start, tmp_path / "home", database_url, str(tmp_path), 600.0)
    state, _ = await resumed(tmp_path / "home", database_url)
    assert state.termination is not None
    assert state.termination.value == ["Busy", "call", 4]
    assert list(state.calls) == [f"/call#0.{attempt}" for attempt in (1, 2, 3, 4)]
    assert counted(tmp_path, "call") == 4 + repeated
    assert state.used.tokens == 40


async def test_a_deadline_that_passed_since_the_kill_allows_no_further_attempt(
    database_url: str, tmp_path: Path
) -> None:
    children.run_until("kernel.effect.after", start, tmp_path / "home", database_url, str(tmp_path), 0.3)
    await asyncio.sleep(0.3)  # the deadline, which nothing but time brings
    state, _ = await resumed(tmp_path / "home", database_url)
    assert state.termination is not None
    assert state.termination.value == ["Busy", "call", 1]
    assert counted(tmp_path, "call") == 2  # the attempt that was killed is the same attempt, run again
