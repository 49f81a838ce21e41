"""Goals by the key that started them, wherever an id is expected; on each kind of store."""

import pytest

from perdure import Goal, GoalWaiting, Invalid, NotFound, flow
from perdure.app.goals.goals import Goals


@flow
async def asks(goal: Goal) -> str:
    return str(await goal.ask("Publish?", ["yes", "no"]))


@flow
async def fails(goal: Goal) -> None:  # noqa: ARG001 (a flow takes its goal)
    raise ValueError("no")


async def waiting(goals: Goals, key: str) -> str:
    with pytest.raises(GoalWaiting) as waits:
        await goals.options(key=key).run(asks)
    return waits.value.id


async def test_a_handle_is_returned_by_key(goals: Goals) -> None:
    goal_id = await waiting(goals, "order/7: a b")
    handle = await goals.handle(key="order/7: a b")
    assert handle.id == goal_id == (await goals.handle("key:order/7: a b")).id == (await goals.handle(goal_id)).id
    await goals.decide("key:order/7: a b", "answer", value="yes")
    assert (await goals.resume("key:order/7: a b")).value == "yes"
    assert (await handle.result(timeout_s=10)).value == "yes"


async def test_reading_and_changing_methods_take_a_key(goals: Goals) -> None:
    goal_id = await waiting(goals, "k")
    assert (await goals.get("key:k")).id == (await goals.find("key:k")).id == goal_id
    assert [event.seq for event in await goals.events("key:k", after=1)] == [2]
    assert (await goals.state("key:k")).goal_id == (await goals.replay("key:k")).state.goal_id == goal_id
    assert await goals.pending("key:k") == []
    assert (await goals.begun("key:k")).mind.flow == "asks"
    fork = await goals.fork("key:k", before="ask")
    assert fork.summary.forked_from is not None
    assert (await goals.cancel("key:k")).id == goal_id
    assert await goals.delete(fork.id if fork.is_final else (await goals.cancel(fork.id)).id)
    assert await goals.delete("key:k") == goal_id
    with pytest.raises(NotFound, match="No goal was started with the key 'k'"):
        await goals.get("key:k")


async def test_a_retry_takes_a_key(goals: Goals) -> None:
    failed = await goals.options(key="k", on_failed="return").run(fails)
    ran = await goals.reopen("key:k")
    assert (ran.state.goal_id, ran.state.status) == (failed.id, "failed")
    assert len(ran.state.reopenings) == 1


@pytest.mark.parametrize("given", [{}, {"goal_id": "x", "key": "k"}, {"key": ""}, {"key": 3}, {"goal_id": "key:"}])
async def test_what_names_no_goal_is_invalid(goals: Goals, given: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        await goals.handle(**given)


async def test_a_key_that_started_nothing_is_not_found(goals: Goals) -> None:
    await waiting(goals, "known")
    for name in ("key:know", "key:KNOWN", "key: known"):
        with pytest.raises(NotFound, match="No goal was started with the key"):
            await goals.handle(name)
