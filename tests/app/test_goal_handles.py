"""Goals in the background: handles in this and in other processes, on each kind of store."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, Goal, GoalCancelled, GoalFailed, Invalid, NotFound, Perdure, Unavailable, flow
from perdure.app.goals.goals import Goals
from tests.app.parked import parked, until_status, until_waiting
from tests.app.serving import until

CALLS: list[str] = []
GATES: list[asyncio.Event] = []
PATIENCE_S = 30.0


def note(word: str) -> str:
    CALLS.append(word)
    return word


async def held() -> str:
    reached, gate = GATES
    reached.set()
    await gate.wait()
    return note("held")


@flow
async def two_steps(goal: Goal) -> list[str]:
    return [await goal.step(held), await goal.step(note, "after")]


@flow
async def asking(goal: Goal) -> str:
    return f"{await goal.step(note, 'first')} {await goal.ask('Well?')}"


@flow
async def slow_to_end(goal: Goal) -> str:
    try:
        return await goal.step(held)
    finally:
        await GATES[1].wait()


@flow
async def slow_to_begin(goal: Goal) -> str:
    await GATES[1].wait()
    return str(await goal.step(note, "begun"))


@flow
async def broken(_goal: Goal) -> None:
    raise KeyError("x")


def fail_once() -> str:
    if not CALLS:
        note("failed")
        raise ValueError("once")
    return note("done")


@flow
async def failing_once(goal: Goal) -> str:
    await goal.ask("Well?")
    return str(await goal.step(fail_once))


@dataclass
class Code:
    """The name of the first step, as a developer edits it."""

    name = "first"


@flow
async def edited(goal: Goal) -> object:
    await goal.options(name=Code.name).step(note, "x")
    return await goal.signal("go")


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()
    GATES[:] = [asyncio.Event(), asyncio.Event()]


@pytest.fixture
async def other(place: str | None, tmp_path: Path) -> AsyncIterator[Goals]:
    """The same goals as another process has them."""
    if place is None:
        pytest.skip("goals in memory have one process")
    async with Perdure.open(tmp_path / "home", database_url=place) as p:
        yield p.goals


async def test_start_returns_before_the_end_and_the_goal_is_stored(goals: Goals) -> None:
    handle = await goals.start(two_steps)
    assert (await goals.get(handle.id)).text == "two_steps()"
    await GATES[0].wait()
    assert await handle.status() == "running"
    GATES[1].set()
    result = await handle.result(timeout_s=PATIENCE_S)
    assert (result.id, result.value) == (handle.id, ["held", "after"])
    assert await handle.status() == "done"


async def test_start_returns_while_the_code_of_the_flow_awaits_something_else(goals: Goals) -> None:
    handle = await asyncio.wait_for(goals.start(slow_to_begin), 5)
    assert [event.type for event in await goals.history(handle.id)] == ["goal"]
    GATES[1].set()
    assert (await handle.result(timeout_s=PATIENCE_S)).value == "begun"


async def test_a_result_that_does_not_come_in_time_is_a_timeout_and_the_goal_continues(goals: Goals) -> None:
    handle = await goals.start(two_steps)
    await GATES[0].wait()
    with pytest.raises(TimeoutError, match=f"^{handle.id} is running$"):
        await handle.result(timeout_s=0.05)
    GATES[1].set()
    assert (await handle.result(timeout_s=PATIENCE_S)).status == "done"
    assert CALLS == ["held", "after"]


async def test_a_result_that_is_there_needs_no_time(goals: Goals) -> None:
    result = await goals.run(["true"])
    handle = await goals.handle(result.id)
    assert (await handle.result(timeout_s=0)).status == "done"
    with pytest.raises(TimeoutError):
        await (await goals.start(two_steps)).result(timeout_s=0)
    GATES[1].set()


@pytest.mark.parametrize("timeout_s", [-1, "5", True])
async def test_an_invalid_timeout_is_refused(goals: Goals, timeout_s: Any) -> None:
    handle = await goals.handle((await goals.run(["true"])).id)
    with pytest.raises(Invalid, match="Invalid timeout_s"):
        await handle.result(timeout_s)


async def test_a_result_is_waited_for_through_a_question(goals: Goals) -> None:
    handle = await goals.start(asking)
    result = asyncio.create_task(handle.result(timeout_s=PATIENCE_S))
    await until_waiting(handle)
    await goals.decide(handle.id, "answer", value="yes")
    assert (await result).value == "first yes"
    assert CALLS == ["first"]


async def test_a_timeout_while_the_goal_waits_says_for_what(goals: Goals) -> None:
    handle = await goals.start(asking)
    await until_waiting(handle)
    with pytest.raises(TimeoutError, match=f"^{handle.id} waits for a person: 'Well\\?'$"):
        await handle.result(timeout_s=0)


async def test_a_goal_in_the_background_continues_when_it_is_answered_though_no_caller_waits(goals: Goals) -> None:
    handle = await goals.start(asking)
    await until_waiting(handle)
    await goals.decide(handle.id, "answer", value="yes")
    await until_status(handle, "done")


async def test_a_goal_that_fails_after_it_was_answered_is_retried_where_that_is_wanted(goals: Goals) -> None:
    handle = await goals.options(on_failed="retry").start(failing_once)
    await until_waiting(handle)
    await goals.decide(handle.id, "answer", value="yes")
    await until_status(handle, "done")
    assert CALLS == ["failed", "done"]


async def test_only_goals_that_were_started_here_are_resumed(goals: Goals, other: Goals) -> None:
    not_started = (await parked(other.run(asking))).id
    handle = await goals.start(asking)
    await until_waiting(handle)
    for goal_id in (not_started, handle.id):
        await other.decide(goal_id, "answer", value="yes")
    await until_status(handle, "done")
    assert (await goals.get(not_started)).status == "interrupted"


async def test_a_handle_raises_how_the_goal_failed(goals: Goals) -> None:
    with pytest.raises(GoalFailed, match="KeyError: 'x'"):
        await (await goals.start(broken)).result(timeout_s=PATIENCE_S)
    returned = await goals.options(on_failed="return").start(broken)
    assert (await returned.result(timeout_s=PATIENCE_S)).status == "failed"


async def test_a_goal_is_cancelled_through_its_handle(goals: Goals) -> None:
    handle = await goals.start(two_steps)
    await GATES[0].wait()
    assert (await handle.cancel()).status == "cancelled"
    with pytest.raises(GoalCancelled):
        await handle.result(timeout_s=PATIENCE_S)
    assert CALLS == []


async def test_a_cancelled_goal_has_its_end_while_its_flow_is_still_unwound(goals: Goals) -> None:
    handle = await goals.start(slow_to_end)
    await GATES[0].wait()
    result = asyncio.create_task(handle.result(timeout_s=1))
    assert (await handle.cancel()).status == "cancelled"
    for waited in (handle.result(timeout_s=0), result):
        with pytest.raises(GoalCancelled):
            await waited
    GATES[1].set()


async def test_another_process_has_a_handle_on_the_same_goal(goals: Goals, other: Goals) -> None:
    started = await goals.start(two_steps)
    await GATES[0].wait()
    handle = await other.handle(started.id)
    assert await handle.status() == "running"
    result = asyncio.create_task(handle.result(timeout_s=PATIENCE_S))
    GATES[1].set()
    assert await result == await started.result(timeout_s=PATIENCE_S)


async def test_an_answer_from_another_process_lets_the_goal_continue_here(goals: Goals, other: Goals) -> None:
    handle = await goals.start(asking)
    result = asyncio.create_task(handle.result(timeout_s=PATIENCE_S))
    await until_waiting(handle)
    await other.decide(handle.id, "answer", value="yes")
    assert (await result).value == "first yes"


async def test_there_is_no_handle_on_a_goal_that_is_not_there(goals: Goals) -> None:
    with pytest.raises(NotFound):
        await goals.handle("20200101-000000-nothing-aaaa")


async def test_the_key_of_a_running_goal_returns_a_handle_on_it(goals: Goals) -> None:
    first = await goals.options(key="k").start(two_steps)
    second = await goals.options(key="k").start(two_steps)
    assert second.id == first.id
    GATES[1].set()
    assert await first.result(timeout_s=PATIENCE_S) == await second.result(timeout_s=PATIENCE_S)
    assert CALLS == ["held", "after"]
    third = await goals.options(key="k").start(two_steps)
    assert (await third.result(timeout_s=PATIENCE_S)).value == ["held", "after"]


async def test_eight_starts_with_one_key_are_one_goal(goals: Goals) -> None:
    GATES[1].set()
    handles = await asyncio.gather(*[goals.options(key="k").start(two_steps) for _ in range(8)])
    assert len({handle.id for handle in handles}) == 1
    await asyncio.gather(*[handle.result(timeout_s=PATIENCE_S) for handle in handles])
    assert CALLS == ["held", "after"]


async def test_code_that_was_changed_is_raised_by_the_handle(goals: Goals, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = await goals.start(edited)
    await until_waiting(handle)
    with monkeypatch.context() as patched:
        patched.setattr(Code, "name", "other")
        await goals.signal(handle.id, "go", 5)
        with pytest.raises(Conflict, match="does not match the history"):
            await handle.result(timeout_s=PATIENCE_S)
    assert (await handle.result(timeout_s=PATIENCE_S)).value == 5


async def test_a_goal_that_is_invalid_is_refused_before_it_is_stored(goals: Goals) -> None:
    with pytest.raises(Invalid):
        await goals.start(asking, "too", "many")  # type: ignore[call-overload]
    assert await goals.list() == []


async def test_closing_interrupts_what_runs_in_the_background_and_releases_it(
    place: str | None, tmp_path: Path
) -> None:
    if place is None:
        pytest.skip("goals in memory end with their process")
    async with Perdure.open(tmp_path / "home", database_url=place) as p:
        handle = await p.goals.options(key="k").start(two_steps)
        await GATES[0].wait()
        waiting = asyncio.create_task(handle.result())
        asyncio.get_running_loop().call_later(0.05, GATES[1].set)
    with pytest.raises(Unavailable):
        await waiting
    assert CALLS == ["held"], "the step that ran came to its end, and the next was not begun"
    async with Perdure.open(tmp_path / "home", database_url=place) as p:
        goal = await p.goals.get(handle.id)
        assert (goal.status, goal.summary.worker) == ("interrupted", None)
        assert (await p.goals.options(key="k").run(two_steps)).value == ["held", "after"]
    assert CALLS == ["held", "after"]


async def test_a_step_that_does_not_end_when_the_home_is_closed_is_cut_short(tmp_path: Path) -> None:
    async with Perdure.open(tmp_path / "home") as p:
        handle = await p.goals.start(two_steps)
        await GATES[0].wait()
        p.goals.worker.end_wait()
    async with Perdure.open(tmp_path / "home") as p:
        assert await (await p.goals.handle(handle.id)).status() == "interrupted"


async def test_nothing_is_left_when_all_is_done(goals: Goals) -> None:
    GATES[1].set()
    await (await goals.start(two_steps)).result(timeout_s=PATIENCE_S)
    await until(lambda: not goals.worker.is_busy)
