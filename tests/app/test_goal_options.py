"""How `p.goals.run` says that a goal failed, was cancelled or waits, and what its options do, on each kind of store."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure import Goal, GoalCancelled, GoalFailed, Limits, Perdure, flow
from perdure.app.goals.goals import Goals
from tests.app.parked import parked

CALLS: list[str] = []
GATES: list[asyncio.Event] = []


def note(word: str) -> str:
    CALLS.append(word)
    return word


async def held() -> str:
    reached, gate = GATES
    reached.set()
    await gate.wait()
    return note("held")


@flow
async def failing(goal: Goal) -> str:
    await goal.step(note, "before")
    raise LookupError("no such order")


@flow
async def waiting(goal: Goal) -> None:
    await goal.gather(goal.ask("Ship it?", ["yes", "no"]), goal.signal("paid"), goal.sleep(3600))


@flow
async def holding(goal: Goal) -> str:
    return str(await goal.step(held))


@flow
async def many(goal: Goal) -> None:
    for number in range(5):
        await goal.step(note, str(number))


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()
    GATES[:] = [asyncio.Event(), asyncio.Event()]


async def test_a_goal_that_fails_raises_how_and_the_next_command(goals: Goals) -> None:
    with pytest.raises(GoalFailed, match="failed \\(fatal_error\\): LookupError: no such order") as failed:
        await goals.run(failing)
    error = failed.value
    assert not isinstance(error, GoalCancelled)
    assert (error.id, error.exit_code) == ((await goals.list())[0].id, 1)
    assert f"perdure goal retry {error.id}" in str(error)


async def test_a_failed_goal_is_returned_where_that_is_wanted(goals: Goals) -> None:
    result = await goals.options(on_failed="return").run(failing)
    assert (result.status, result.reason) == ("failed", "fatal_error")
    assert str(result.detail).startswith("LookupError: no such order")


async def test_the_key_of_a_goal_that_failed_raises_again_and_runs_nothing(goals: Goals) -> None:
    with pytest.raises(GoalFailed) as first:
        await goals.options(key="k").run(failing)
    with pytest.raises(GoalFailed, match=r"UTC \(recorded; nothing was run now\): LookupError") as second:
        await goals.options(key="k").run(failing)
    assert CALLS == ["before"]
    assert (first.value.recorded_at is None, second.value.recorded_at is None) == (True, False)
    assert str(second.value).splitlines()[-1].startswith(f"  perdure goal retry {second.value.id}")


async def test_the_handle_of_a_goal_that_failed_before_says_that_nothing_was_run(goals: Goals) -> None:
    options = goals.options(key="k")
    first = await options.start(failing)
    with pytest.raises(GoalFailed) as failed:
        await first.result(timeout_s=30)
    second = await options.start(failing)
    with pytest.raises(GoalFailed) as recorded:
        await second.result()
    assert (failed.value.recorded_at is None, recorded.value.recorded_at is None) == (True, False)


async def test_a_goal_that_is_cancelled_raises_goal_cancelled(goals: Goals) -> None:
    running = asyncio.create_task(goals.run(holding))
    await GATES[0].wait()
    goal_id = (await goals.list())[0].id
    await goals.cancel(goal_id)
    with pytest.raises(GoalCancelled, match=f"{goal_id} was cancelled") as cancelled:
        await running
    assert (cancelled.value.exit_code, cancelled.value.reason) == (130, "cancelled")


async def test_a_goal_that_waits_raises_its_questions_signals_and_moment(goals: Goals) -> None:
    error = await parked(goals.run(waiting))
    assert (error.waiting_for, error.exit_code) == ("person", 5)
    assert [(each.question, each.options) for each in error.questions] == [("Ship it?", ("yes", "no"))]
    assert error.signals == ("paid",)
    assert error.due_at is not None
    assert 3500 < (error.due_at - datetime.now(UTC)).total_seconds() <= 3600
    assert str(error).startswith(f"{error.id} waits for a person: 'Ship it?' (yes, no).")


async def test_a_goal_that_has_used_its_limit_raises_with_exit_code_6(goals: Goals) -> None:
    error = await parked(goals.options(limits=Limits(iterations=2)).run(many))
    assert (error.waiting_for, error.exit_code) == ("limit", 6)
    assert "waits for a limit to be raised" in str(error)


async def test_tags_are_recorded(goals: Goals) -> None:
    result = await goals.options(tags=["team:shop", "größe/2"]).run(["true"])
    assert (await goals.find(result.id)).summary.tags == ("team:shop", "größe/2")
    assert (await goals.state(result.id)).begun.tags == ("team:shop", "größe/2")


async def test_the_key_of_a_running_goal_waits_for_its_result(place: str | None, tmp_path: Path) -> None:
    if place is None:
        pytest.skip("one process is enough for goals in memory")
    home = tmp_path / "home"
    async with Perdure.open(home, database_url=place) as one, Perdure.open(home, database_url=place) as other:
        first = asyncio.create_task(one.goals.options(key="k").run(holding))
        await GATES[0].wait()
        second = asyncio.create_task(other.goals.options(key="k").run(holding))
        third = asyncio.create_task(one.goals.options(key="k").run(holding))
        done, _ = await asyncio.wait({second, third}, timeout=0.3)
        assert not done, "both wait"
        GATES[1].set()
        assert await first == await second == await third
    assert CALLS == ["held"]


async def test_the_key_of_a_running_goal_takes_over_when_its_worker_ends(place: str | None, tmp_path: Path) -> None:
    if place is None:
        pytest.skip("goals in memory end with their process")
    home = tmp_path / "home"
    async with Perdure.open(home, database_url=place) as other:
        async with Perdure.open(home, database_url=place) as one:
            first = asyncio.create_task(one.goals.options(key="k").run(many_held))
            await GATES[0].wait()
            second = asyncio.create_task(other.goals.options(key="k").run(many_held))
            first.cancel()
            await asyncio.wait({first})
        GATES[1].set()
        assert (await second).value == "held"
    assert CALLS == ["before", "held"]


@flow
async def many_held(goal: Goal) -> str:
    await goal.step(note, "before")
    return str(await goal.options(effect="idempotent").step(held))


async def test_a_plan_file_that_is_given_as_a_text_says_how_to_give_it(goals: Goals, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("goal: a plan\nsteps: [{id: a, exec: [true]}]")
    with pytest.raises(Exception, match="Pass a plan as a Path: p.goals.run") as refused:
        await goals.run(str(plan))
    assert type(refused.value).__name__ == "Invalid"
    assert await goals.list() == []
