"""Flows, keys, signals and timers, as a Python program uses them, on each kind of store."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from perdure import Conflict, Goal, GoalFailed, GoalResult, Invalid, NotFound, Perdure, flow
from perdure.app.goals.goals import Goals
from tests.app.parked import parked, parking

CALLS: list[str] = []


def note(word: str) -> str:
    CALLS.append(word)
    return word


@flow
async def greet(goal: Goal, name: str) -> str:
    return str(await goal.step(note, f"hello {name}"))


@flow
async def asking(goal: Goal) -> list[str]:
    first = await goal.step(note, "first")
    answer = await goal.ask("Go on?", ["yes", "no"])
    return [first, answer, await goal.step(note, "last")]


@flow
async def paid(goal: Goal) -> list[object]:
    return [await goal.signal("paid"), await goal.signal("paid")]


@flow
async def sleeping(goal: Goal) -> str:
    await goal.sleep(0.01)
    return str(await goal.step(note, "awake"))


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


async def test_a_flow_is_run_and_its_value_returned(goals: Goals) -> None:
    result = await goals.run(greet, "Ann")
    assert result == GoalResult(result.id, "done", "done", "hello Ann")
    assert "-greet-" in result.id
    assert "ann" not in result.id, "arguments may be private"


@dataclass
class Order:
    item: str
    count: int


class Customer(BaseModel):
    name: str


@flow
async def bought(_goal: Goal, order: Order, by: Customer) -> str:
    return f"{by.name} bought {order.count} of {order.item}"


async def test_a_flow_is_given_objects_or_their_json_and_gets_the_objects(goals: Goals) -> None:
    given = await goals.run(bought, Order("lamp", 2), by=Customer(name="Ann"))
    assert given.value == "Ann bought 2 of lamp"
    assert (await goals.run(cast("Any", bought), {"item": "lamp", "count": 2}, {"name": "Ann"})).value == given.value


@pytest.mark.parametrize("order", [{"item": "lamp"}, {"item": "lamp", "count": "many"}, 5, None])
async def test_an_object_that_does_not_fit_is_refused_before_anything_is_recorded(goals: Goals, order: Any) -> None:
    with pytest.raises(Invalid, match="bought cannot be called like that: order does not fit"):
        await goals.run(bought, order, Customer(name="Ann"))
    assert await goals.list() == []


@flow
async def broken(_goal: Goal) -> None:
    raise KeyError("x")


async def test_a_flow_that_fails_says_why(goals: Goals) -> None:
    with pytest.raises(GoalFailed) as failed:
        await goals.run(broken)
    error = failed.value
    assert (error.reason, error.exit_code) == ("fatal_error", 1)
    assert re.fullmatch(r"KeyError: 'x' \(.*test_flows\.py, line \d+\)", error.detail)
    with pytest.raises(GoalFailed) as resumed:
        await goals.resume(error.id)
    assert (resumed.value.reason, resumed.value.detail) == (error.reason, error.detail)


async def test_a_command_and_a_plan_are_run_the_same_way(goals: Goals, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("goal: a plan\nsteps: [{id: a, exec: [true]}]")
    assert (await goals.run(["echo", "hi"])).status == "done"
    assert (await goals.run(tmp_path / "plan.yaml")).value == {"a": {"status": "done", "exit_code": 0}}
    with pytest.raises(NotFound):
        await goals.run(tmp_path / "none.yaml")
    with pytest.raises(Invalid, match="Only a flow"):
        await goals.run("echo", 1)  # type: ignore[call-overload]


async def test_the_same_key_is_the_same_goal(goals: Goals) -> None:
    first = await goals.options(key="k").run(greet, "Ann")
    assert await goals.options(key="k").run(greet, "Ann") == first
    assert CALLS == ["hello Ann"]
    for other in (goals.options(key="k").run(greet, "Bob"), goals.options(key="k").run(["echo"])):
        with pytest.raises(Conflict, match=f"'k' started {first.id}"):
            await other
    assert len(await goals.list()) == 1


async def test_the_same_key_resumes_a_goal_that_waited(goals: Goals) -> None:
    first = await parked(goals.options(key="k").run(asking))
    await goals.decide(first.id, "answer", value="yes")
    assert (await goals.options(key="k").run(asking)).value == ["first", "yes", "last"]
    assert CALLS == ["first", "last"]


async def test_of_eight_that_start_with_one_key_at_once_one_runs_and_all_get_its_result(goals: Goals) -> None:
    found = await asyncio.gather(*[goals.options(key="k").run(greet, "Ann") for _ in range(8)])
    assert [one.value for one in found] == ["hello Ann"] * 8
    assert CALLS == ["hello Ann"]
    assert len(await goals.list()) == 1


async def test_a_key_that_started_something_else_says_how_to_continue(goals: Goals) -> None:
    first = await goals.options(key="k").run(greet, "Ann")
    with pytest.raises(Conflict) as refused:
        await goals.options(key="k").run(greet, "Bob")
    for said in ("greet('Ann')", "another key", f"goal fork {first.id}", f"goal delete {first.id}"):
        assert said in refused.value.detail


async def test_the_key_of_a_deleted_goal_is_free_again(goals: Goals) -> None:
    first = await goals.options(key="k").run(greet, "Ann")
    await goals.delete(first.id)
    again = await goals.options(key="k").run(greet, "Bob")
    assert (again.value, again.id != first.id) == ("hello Bob", True)
    with pytest.raises(NotFound, match="was deleted"):
        await goals.resume(first.id)


async def test_a_signal_with_the_key_of_another_is_a_conflict_and_the_same_again_is_not_news(goals: Goals) -> None:
    goal_id = (await parked(goals.run(paid))).id
    assert (await goals.signal(goal_id, "paid", 1, key="k")).is_news
    assert not (await goals.signal(goal_id, "paid", 1, key="k")).is_news
    for name, payload in (("paid", 2), ("sent", 1)):
        with pytest.raises(Conflict, match="another request with the key 'k'"):
            await goals.signal(goal_id, name, payload, key="k")
    await goals.signal(goal_id, "paid", 2, key="l")
    assert (await goals.resume(goal_id)).value == [1, 2]


async def test_a_view_has_the_id_the_text_and_why_it_ended(goals: Goals) -> None:
    result = await goals.run(greet, "Ann")
    view = await goals.find(result.id)
    assert (view.id, view.text, view.status, view.reason) == (result.id, "greet('Ann')", "done", "done")


async def test_a_signal_is_taken_once_by_its_key_and_in_order(goals: Goals) -> None:
    goal_id = (await parked(goals.run(paid))).id
    assert (await goals.find(goal_id)).summary.waiting_for == "signal"
    for number in (1, 1, 2):
        await goals.signal(goal_id, "paid", number, key=f"k{number}")
    assert (await goals.resume(goal_id)).value == [1, 2]
    with pytest.raises(Conflict):
        await goals.signal(goal_id, "paid", 3)


@pytest.mark.parametrize("payload", [float("nan"), "\ud800", {1: 2}])
async def test_a_signal_that_is_no_json_is_refused(goals: Goals, payload: object) -> None:
    goal_id = (await parked(goals.run(paid))).id
    with pytest.raises(Invalid):
        await goals.signal(goal_id, "paid", payload)
    assert await goals.pending(goal_id) == []


async def test_who_follows_a_goal_sees_each_event_once_until_it_ends(goals: Goals) -> None:
    goal_id = (await parked(goals.run(asking))).id

    async def seen() -> list[int]:
        return [event.seq async for event in goals.follow(goal_id)]

    following = asyncio.create_task(seen())
    await goals.decide(goal_id, "answer", value="yes")
    await goals.resume(goal_id)
    assert await following == [event.seq for event in await goals.history(goal_id)]
    assert [event.seq async for event in goals.follow(goal_id, after=3)] == [
        event.seq for event in await goals.history(goal_id) if event.seq > 3
    ]


async def test_goals_that_are_due_continue_and_others_do_not(database_url: str, tmp_path: Path) -> None:
    async with Perdure.open(tmp_path / "home", database_url=database_url) as p:
        async with parking(p) as goals:
            goal_id = (await parked(goals.run(sleeping))).id
            assert await goals.due() == [], "its clock stands still"
        assert (await p.goals.find(goal_id)).summary.waiting_for == "timer"
        assert [view.summary.goal_id for view in await p.goals.due()] == [goal_id]
        assert (await p.goals.resume(goal_id)).status == "done"
        assert await p.goals.due() == []
    assert CALLS == ["awake"]
