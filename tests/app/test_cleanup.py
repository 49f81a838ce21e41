"""Goals of a program that clean up when they are cancelled, on each kind of store."""

import asyncio
import sys
from pathlib import Path

import pytest

from perdure import Conflict, Goal, GoalCancelled, GoalWaiting, KeyTaken, Perdure, flow
from perdure.app.goals.goals import Goals
from perdure.app.wire.next_commands import next_commands
from perdure.errors import Invalid
from perdure.minds.flow import registry
from tests.app.parked import until_waiting

EFFECTS: list[str] = []


def act(what: str) -> str:
    EFFECTS.append(what)
    return what


@flow(cleanup=True)
async def booking(goal: Goal) -> str:
    """Book something, and wait for a person; a cancel undoes it."""
    await goal.options(effect="idempotent").step(act, "book")
    try:
        return str(await goal.ask("Keep it?"))
    finally:
        await goal.options(effect="idempotent").step(act, "undo")


@flow
async def plain(goal: Goal) -> str:
    """Do the same without cleanup."""
    await goal.options(effect="idempotent").step(act, "book")
    try:
        return str(await goal.ask("Keep it?"))
    finally:
        await goal.options(effect="idempotent").step(act, "undo")


@pytest.fixture(autouse=True)
def _no_effects() -> None:
    EFFECTS.clear()


async def parked(goals: Goals) -> str:
    with pytest.raises(GoalWaiting) as waiting:
        await goals.run(booking)
    return waiting.value.id


async def test_a_goal_that_no_worker_runs_cleans_up_in_the_cancel(goals: Goals) -> None:
    goal_id = await parked(goals)
    seen = await goals.cancel(goal_id, reason="withdrawn")
    assert (seen.status, seen.reason) == ("cancelled", "cancelled")
    assert EFFECTS == ["book", "undo"]
    state = await goals.state(goal_id)
    assert state.termination is not None
    assert state.termination.detail == "withdrawn"
    assert [event.type for event in await goals.history(goal_id)].count("cancel") == 1
    with pytest.raises(GoalCancelled, match=r" UTC \(recorded; nothing was run now\): withdrawn$"):
        await goals.resume(goal_id)


async def test_a_handle_cancels_a_goal_of_its_program(goals: Goals) -> None:
    handle = await goals.start(booking)
    await until_waiting(handle)
    seen = await handle.cancel(reason="withdrawn")
    assert seen.status == "cancelled"
    assert EFFECTS == ["book", "undo"]
    with pytest.raises(GoalCancelled):
        await handle.result()


async def test_now_ends_the_goal_without_cleanup(goals: Goals) -> None:
    seen = await goals.cancel(await parked(goals), now=True)
    assert seen.status == "cancelled"
    assert EFFECTS == ["book"]


async def test_a_flow_without_cleanup_is_ended_at_once(goals: Goals) -> None:
    with pytest.raises(GoalWaiting) as waiting:
        await goals.run(plain)
    assert (await goals.cancel(waiting.value.id)).status == "cancelled"
    assert EFFECTS == ["book"]


async def test_a_cancel_is_known_by_its_key(goals: Goals) -> None:
    goal_id = await parked(goals)
    assert (await goals.cancel(goal_id, key="c", reason="withdrawn")).is_news
    again = await goals.cancel(goal_id, key="c", reason="withdrawn")
    assert (again.is_news, again.status) == (False, "cancelled")
    with pytest.raises(KeyTaken):
        await goals.cancel(goal_id, key="c", reason="another")
    with pytest.raises(Conflict):
        await goals.cancel(goal_id)


async def test_an_invalid_reason_stores_nothing(goals: Goals) -> None:
    goal_id = await parked(goals)
    with pytest.raises(Invalid, match="Invalid reason"):
        await goals.cancel(goal_id, reason="")
    assert (await goals.get(goal_id)).status == "waiting"


async def test_a_goal_without_its_code_stays_cancelled_and_interrupted(
    goals: Goals, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal_id = await parked(goals)
    with monkeypatch.context() as gone:
        gone.delitem(registry._FLOWS, booking.key)
        gone.delattr(sys.modules[__name__], "booking")
        seen = await goals.cancel(goal_id, reason="withdrawn")
        assert seen.status == "interrupted"
        assert seen.note is not None
        assert seen.note.startswith("It is cancelled and ends after the cleanup of its flow. That is not possible here")
        found = await goals.get(goal_id)
        assert found.summary.detail == "Cancelled by person (withdrawn): its flow cleans up before the goal ends."
        commands = next_commands(found.summary, await goals.state(goal_id))
        assert [each.command for each in commands] == [
            f"perdure goal resume {goal_id}",
            f"perdure goal cancel {goal_id} --now",
        ]
    with pytest.raises(GoalCancelled):
        await goals.resume(goal_id)
    assert EFFECTS == ["book", "undo"]


async def test_an_application_cleans_up_goals_of_its_queue(database_url: str, tmp_path: Path) -> None:
    async with Perdure.open(tmp_path / "home", database_url=database_url, app="shop", recover=True) as shop:
        handle = await shop.goals.start(booking)
        await until_waiting(handle)
        async with Perdure.open(tmp_path / "home", database_url=database_url) as other:
            seen = await other.goals.cancel(handle.id, reason="withdrawn")
        assert seen.status == "cancelled"
        async with asyncio.timeout(10):
            with pytest.raises(GoalCancelled):
                await handle.result()
    assert EFFECTS == ["book", "undo"]


async def test_the_grace_is_a_setting(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @flow(cleanup=True)
    async def slow(goal: Goal) -> None:
        await goal.options(effect="idempotent").step(act, "book")
        try:
            await goal.signal("never")
        finally:
            await goal.ask("Really?")

    monkeypatch.setenv("PERDURE_GOALS_CANCEL_GRACE_S", "0.3")
    async with Perdure.open(tmp_path / "home", database_url=database_url) as p:
        with pytest.raises(GoalWaiting) as waiting:
            await p.goals.run(slow)
        seen = await p.goals.cancel(waiting.value.id)
        assert seen.status == "cancelled"
        assert seen.summary.detail == "the cleanup did not end within 0.3 s"


async def test_a_goal_that_has_cleaned_up_is_forked_only_by_one_who_names_what_the_fork_does_not_undo(
    goals: Goals,
) -> None:
    goal_id = await parked(goals)
    await goals.cancel(goal_id)
    for place in ({"before": "ask"}, {"at": 1}):
        with pytest.raises(Conflict, match=r"its cleanup began /act#1\. .*add --repeat 'act#1'\.$"):
            await goals.fork(goal_id, **place)
    assert next_commands((await goals.get(goal_id)).summary, await goals.state(goal_id)) == ()
    with pytest.raises(Conflict, match=r"Its cleanup began /act#1; a fork would not undo that\.$"):
        await goals.retry(goal_id)
    assert len(await goals.list()) == 1
    fork = await goals.fork(goal_id, before="ask", repeat=["act#1"])
    assert (await goals.state(fork.id)).cancel is None
