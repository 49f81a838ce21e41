"""Versions, ids, time and chance of a flow on every kind of store, and in forks."""

from typing import Any

import pytest

from perdure import Conflict, Flow, Goal, GoalWaiting, flow
from perdure.app.goals.goals import Goals


def draw(*values: Any) -> list[Any]:
    return list(values)


def code(latest: int, oldest: int = 1) -> Flow[[], Any]:
    @flow(name="changed-code")
    async def changed(goal: Goal) -> Any:
        step = goal.options(effect="idempotent", id="draw").step
        drawn = await step(draw, str(goal.uuid()), goal.random().random(), goal.now().isoformat())
        number = await goal.version("mail", latest, oldest)
        await goal.signal("go")
        return [drawn, number, str(goal.uuid())]

    return changed


async def test_a_goal_and_its_fork_keep_what_was_recorded(goals: Goals) -> None:
    first = code(2)
    with pytest.raises(GoalWaiting) as parked:
        await goals.options(key="k").run(first)
    goal_id = parked.value.id
    newest = code(3)
    fork = await goals.fork(goal_id, after="draw")
    later = await goals.fork(goal_id, before="signal")
    values = []
    for each in (goal_id, fork.id, later.id):
        await goals.signal(each, "go")
        values.append((await goals.resume(each)).value)
    assert [value[0] for value in values] == [values[0][0]] * 3, "the step was inherited"
    assert [value[1] for value in values] == [2, 3, 2], "a fork before the marker chooses again"
    assert len({value[2] for value in values}) == 3
    assert newest.name == first.name


async def test_a_version_that_the_code_does_not_have_is_a_conflict_that_changes_nothing(goals: Goals) -> None:
    with pytest.raises(GoalWaiting) as parked:
        await goals.options(key="k").run(code(2))
    before = (await goals.get(parked.value.id)).summary.last_seq
    with pytest.raises(Conflict, match=r"runs version 2 of 'mail'; this code has version 3\. Nothing was changed\."):
        await goals.options(key="k").run(code(3, 3))
    view = await goals.get(parked.value.id)
    assert (view.summary.last_seq, view.status) == (before, "waiting")
