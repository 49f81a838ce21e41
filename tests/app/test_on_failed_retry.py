"""`on_failed="retry"`: a goal that failed is retried once, and raised when it fails again, on each kind of store."""

import pytest

from perdure import Goal, GoalFailed, flow
from perdure.app.goals.goals import Goals

CALLS: list[str] = []
FAILURES: list[str] = []
"""How often the step still fails."""


def flaky() -> str:
    CALLS.append("flaky")
    if FAILURES:
        raise ValueError(FAILURES.pop())
    return "done"


def steady() -> None:
    CALLS.append("steady")


@flow
async def order(goal: Goal) -> str:
    await goal.step(steady)
    return str(await goal.step(flaky))


@flow
async def compensated(goal: Goal) -> None:
    try:
        await goal.step(flaky)
    except Exception:
        await goal.step(steady)
        raise


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()
    FAILURES.clear()


async def test_a_goal_that_fails_once_is_done_after_its_retry(goals: Goals) -> None:
    FAILURES.append("first")
    result = await goals.options(on_failed="retry").run(order)
    assert result.value == "done"
    assert CALLS == ["steady", "flaky", "flaky"]
    assert [reopened.by for reopened in (await goals.state(result.id)).reopenings] == ["on_failed"]


async def test_a_goal_that_fails_again_is_raised(goals: Goals) -> None:
    FAILURES.extend(["third", "second", "first"])
    with pytest.raises(GoalFailed, match="second"):
        await goals.options(on_failed="retry").run(order)
    assert CALLS == ["steady", "flaky", "flaky"]


async def test_a_goal_that_failed_before_is_retried_by_its_key(goals: Goals) -> None:
    FAILURES.append("first")
    with pytest.raises(GoalFailed):
        await goals.options(key="k").run(order)
    assert (await goals.options(key="k", on_failed="retry").run(order)).value == "done"


async def test_a_goal_in_the_background_is_retried_too(goals: Goals) -> None:
    FAILURES.append("first")
    handle = await goals.options(key="k", on_failed="retry").start(order)
    assert (await handle.result(timeout_s=30)).value == "done"
    assert CALLS == ["steady", "flaky", "flaky"]


async def test_a_failed_goal_is_retried_by_a_start_with_its_key(goals: Goals) -> None:
    FAILURES.append("first")
    with pytest.raises(GoalFailed):
        await goals.options(key="k").run(order)
    handle = await goals.options(key="k", on_failed="retry").start(order)
    assert (await handle.result(timeout_s=30)).value == "done"


async def test_a_goal_that_cannot_be_retried_is_raised_with_the_reason(goals: Goals) -> None:
    FAILURES.append("first")
    with pytest.raises(GoalFailed, match="first") as failed:
        await goals.options(on_failed="retry").run(compensated)
    assert "fork" in str(failed.value.__cause__)
    assert CALLS == ["flaky", "steady"]
