"""Goals that are cancelled while their flow cleans up: CancelledError at its place, recorded steps, one grace."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from perdure.errors import Conflict
from perdure.kernel.calls.cleanup import is_cleaning_up
from perdure.kernel.events import GoalBegun, Limits
from perdure.kernel.journal import Journal
from perdure.minds.flow.goal import Goal
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.world import HandClock, World
from tests.minds.cleanup_life import FlowFunction, Life, endings, until

EFFECTS: list[str] = []


async def forever() -> None:
    await asyncio.Event().wait()


def reserve() -> str:
    EFFECTS.append("reserve")
    return "r1"


def undo(what: str) -> str:
    EFFECTS.append(f"undo {what}")
    return what


def broken() -> None:
    raise ValueError("no luck")


async def undoes(goal: Goal) -> Any:
    room = await goal.options(effect="idempotent").step(reserve)
    try:
        await goal.options(effect="idempotent").step(forever)
    finally:
        await goal.options(effect="idempotent").step(undo, room)


async def undoes_in_except(goal: Goal) -> Any:
    room = await goal.options(effect="idempotent").step(reserve)
    try:
        await goal.ask("Go on?")
    except asyncio.CancelledError:
        await goal.options(effect="idempotent").step(undo, room)
        await goal.sleep(1)
        raise


async def undoes_in_a_group(goal: Goal) -> Any:
    room = await goal.options(effect="idempotent").step(reserve)

    async def line(number: int) -> None:
        try:
            await goal.options(effect="idempotent").step(forever)
        finally:
            await goal.options(effect="idempotent", id=f"undo-{number}").step(undo, f"{room}.{number}")

    async with asyncio.TaskGroup() as group:
        for number in range(2):
            group.create_task(line(number))
        group.create_task(goal.signal("never"))
        group.create_task(goal.sleep(1000))


async def undoes_in_branches(goal: Goal) -> Any:
    room = await goal.options(effect="idempotent").step(reserve)

    async def line(number: int) -> None:
        try:
            await goal.options(effect="idempotent").step(forever)
        finally:
            await goal.options(effect="idempotent").step(undo, f"{room}.{number}")

    try:
        async with goal.timeout(1000):
            await goal.gather(line(0), line(1))
    finally:
        await goal.options(effect="pure").step(undo, "rest")


async def undoes_under_a_deadline(goal: Goal) -> Any:
    room = await goal.options(effect="idempotent").step(reserve)
    try:
        await goal.signal("never")
    finally:
        with suppress(TimeoutError):
            async with goal.timeout(5):
                await goal.ask("Still there?")
        async with asyncio.TaskGroup() as group:
            group.create_task(goal.options(effect="idempotent").step(undo, room))
            group.create_task(goal.options(effect="idempotent").step(undo, "more"))


async def returns(goal: Goal) -> Any:
    try:
        await goal.options(effect="idempotent").step(reserve)
        await goal.options(effect="idempotent").step(forever)
    except asyncio.CancelledError:
        return await goal.options(effect="idempotent").step(undo, "r1")


async def fails_in_cleanup(goal: Goal) -> Any:
    await goal.options(effect="idempotent").step(reserve)
    try:
        await goal.options(effect="idempotent").step(forever)
    finally:
        await goal.options(effect="idempotent").step(broken)


async def is_cancelling_already(goal: Goal) -> Any:
    room = await goal.options(effect="idempotent").step(reserve)
    task = asyncio.create_task(goal.options(effect="idempotent").step(forever))
    waiting = asyncio.create_task(goal.signal("never"))
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    try:
        await waiting
    finally:
        await goal.options(effect="idempotent").step(undo, room)


FLOWS: list[tuple[FlowFunction, str | None]] = [
    (undoes, None),
    (undoes_in_except, None),
    (undoes_in_a_group, None),
    (undoes_in_branches, None),
    (undoes_under_a_deadline, None),
    (returns, "the flow returned after the cancel"),
    (fails_in_cleanup, "the cleanup failed: ValueError: no luck"),
    (is_cancelling_already, None),
]


class StillClock(HandClock):
    """Moves only when a test says so."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def hanging_in_cleanup() -> Life:
    """Return a goal that was cancelled, and whose cleanup does not end."""
    one = life(hangs)
    one.world.clock = StillClock()
    await one.begin()
    await one.cancel()

    async def cleans_up() -> bool:
        return any(call.call.step == "/forever#1" for call in (await one.state()).open_calls.values())

    await until(cleans_up)
    return one


def life(fn: FlowFunction, **options: Any) -> Life:
    """Make a goal in a world of its own."""
    dead: set[str] = set()
    store = InMemoryStateStore(is_dead=dead.__contains__)
    return Life(fn, World(store, store, dead=dead), **options)


@pytest.mark.parametrize(("fn", "how"), FLOWS, ids=lambda each: getattr(each, "__name__", ""))
@pytest.mark.parametrize("is_live", [True, False], ids=["running", "interrupted"])
async def test_a_cancelled_flow_cleans_up_alike_wherever_it_dies(
    fn: FlowFunction, how: str | None, *, is_live: bool
) -> None:
    clean = await life(fn, is_live=is_live).ended()
    assert clean.termination is not None
    assert clean.termination.reason == "cancelled"
    detail = "no longer wanted" if how is None else f"no longer wanted ({how}"
    assert (clean.termination.detail or "").startswith(detail)
    assert clean.cancel is not None
    assert not clean.open_calls
    for when in ("before", "after"):
        for number in range(1, 8):
            died = {f"die_{when}": number}
            killed = await life(fn, is_live=is_live, **died).ended()
            assert killed.termination == clean.termination, (when, number)
            assert endings(killed) == endings(clean), (when, number)
            assert not killed.open_calls


async def test_the_outcomes_around_a_cancel_reach_the_flow_in_their_order() -> None:
    EFFECTS.clear()
    state = await life(undoes).ended()
    assert [*endings(state).values()] == ["ok", "cancelled", "ok"]
    assert EFFECTS == ["reserve", "undo r1"]
    assert state.calls["/forever#0.1"].ended_seq == state.cancel_seq + 1


async def test_a_failing_cleanup_names_its_step() -> None:
    state = await life(fails_in_cleanup).ended()
    assert state.status == "cancelled"
    assert state.termination is not None
    assert state.termination.steps == ("/broken#0",)
    assert state.termination.error is not None
    assert state.termination.error.type == "builtins:ValueError"


async def hangs(goal: Goal) -> Any:
    await goal.options(effect="idempotent").step(reserve)
    try:
        await goal.options(effect="idempotent").step(forever)
    finally:
        await goal.options(effect="idempotent").step(forever)


async def asks_in_cleanup(goal: Goal) -> Any:
    await goal.options(effect="idempotent").step(reserve)
    try:
        await goal.signal("never")
    finally:
        await goal.ask("Really?")


async def ignores_the_cancel(goal: Goal) -> Any:
    await goal.options(effect="idempotent").step(reserve)
    while True:
        with suppress(asyncio.CancelledError):
            await goal.signal("never")


@pytest.mark.parametrize("fn", [asks_in_cleanup, ignores_the_cancel], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("is_live", [True, False], ids=["running", "interrupted"])
async def test_a_cleanup_that_waits_ends_with_its_grace(
    fn: FlowFunction, monkeypatch: pytest.MonkeyPatch, *, is_live: bool
) -> None:
    monkeypatch.setattr("perdure.minds.flow.body._UNWINDING_S", 0.1)
    one = life(fn, is_live=is_live)
    state = await one.ended()
    assert state.termination is not None
    assert state.termination.reason == "cancelled"
    assert state.termination.detail == "no longer wanted (the cleanup did not end within 60 s)"
    assert 60e6 <= state.updated_us - state.cancel_us < 75e6


async def test_the_grace_is_counted_over_restarts() -> None:
    one = await hanging_in_cleanup()
    one.task.cancel()
    with suppress(asyncio.CancelledError):
        await one.task
    one.world.clock.now += 60_000_000
    ran = await one.world.resume()
    assert ran.state.termination is not None
    assert ran.state.termination.detail == "no longer wanted (the cleanup did not end within 60 s)"
    assert endings(ran.state)["/forever#1"] == "cancelled"


async def test_a_goal_that_was_cancelled_while_no_worker_had_its_code_has_the_whole_grace() -> None:
    EFFECTS.clear()
    one = life(undoes, is_live=False)
    await one.begin()
    await one.cancel()
    state = await one.world.settle()
    assert (state.status, state.cancel_seq) == ("open", state.head.seq)
    one.world.clock.now += 3_600_000_000
    ran = await one.world.resume()
    assert ran.state.termination is not None
    assert ran.state.termination.detail == "no longer wanted"
    assert EFFECTS == ["reserve", "undo r1"]


@pytest.mark.parametrize("payload", [{"now": True}, {"reason": "at once", "now": True}])
@pytest.mark.parametrize("is_live", [True, False], ids=["running", "interrupted"])
async def test_a_cancel_with_now_ends_the_goal_without_cleanup(payload: dict[str, Any], *, is_live: bool) -> None:
    EFFECTS.clear()
    state = await life(undoes, is_live=is_live, payload=payload).ended()
    assert state.termination is not None
    skipped = "without the cleanup of its flow"
    detail = f"{payload['reason']} ({skipped})" if "reason" in payload else skipped
    assert (state.termination.reason, state.termination.detail) == ("cancelled", detail)
    assert state.cancel is None
    assert EFFECTS == ["reserve"]


async def test_a_cancel_with_now_ends_the_cleanup() -> None:
    one = await hanging_in_cleanup()
    await one.cancel(key="cancel-2", reason="hurry", now=True)
    state = await one.run_to_end()
    assert state.termination is not None
    detail = "no longer wanted (hurry) (without the rest of its cleanup)"
    assert (state.termination.reason, state.termination.detail) == ("cancelled", detail)
    assert endings(state)["/forever#1"] == "cancelled"


@pytest.mark.parametrize("by", ["parent", "person"])
async def test_a_cancel_that_is_repeated_does_not_end_the_cleanup(by: str) -> None:
    EFFECTS.clear()
    one = life(undoes, is_live=False)
    await one.begin()
    await one.cancel(by=by)
    await one.cancel(key="cancel-2", by=by)
    state = await one.world.settle()
    assert is_cleaning_up(state)
    await one.cancel(key="cancel-3", by=by)
    ran = await one.world.resume()
    assert ran.state.status == "cancelled"
    assert EFFECTS == ["reserve", "undo r1"]


async def test_a_cancel_with_now_of_an_interrupted_goal_ends_it_without_its_code() -> None:
    one = life(undoes, is_live=False)
    await one.begin()
    await one.cancel()
    await one.cancel(key="cancel-2", now=True)
    state = await one.world.settle()
    assert state.status == "cancelled"


async def test_a_goal_without_any_call_is_cancelled_at_once() -> None:
    async def never_begun(goal: Goal) -> Any:
        await goal.signal("never")

    one = life(never_begun)
    journal = Journal.begin(one.world._journal_deps(one.world.new_worker()), begun_of(one), "goal-a")
    await journal.commit(release=True)
    one.is_live = False
    await one.cancel()
    assert (await one.world.settle()).status == "cancelled"


async def test_a_reached_limit_does_not_keep_a_goal_from_its_cleanup() -> None:
    EFFECTS.clear()
    one = life(undoes_in_except, limits=Limits(iterations=1), is_live=False)
    one.task = asyncio.create_task(one.world.start(one.spec, limits=one.limits))
    assert (await one.task).state.waiting_for == "limit"
    await one.cancel()
    state = await one.world.settle()
    assert (state.status, state.waiting_for) == ("open", None)
    ended = await one.run_to_end()
    assert ended.termination is not None
    assert ended.termination.detail == "no longer wanted"
    assert EFFECTS == ["reserve", "undo r1"]


async def test_a_goal_is_not_forked_behind_its_cancel() -> None:
    one = life(undoes)
    state = await one.ended()
    with pytest.raises(Conflict, match=f"was cancelled at event {state.cancel_seq}; fork it before that"):
        await one.world.fork(state.cancel_seq)
    assert (await one.world.fork(state.cancel_seq - 1)).cancel is None


async def test_a_flow_without_cleanup_ends_at_once() -> None:
    EFFECTS.clear()
    one = life(undoes)
    one.spec = replace(one.spec, cleanup=None)
    state = await one.ended()
    assert state.termination is not None
    assert (state.termination.detail, state.cancel) == ("no longer wanted", None)
    assert EFFECTS == ["reserve"]


def begun_of(one: Life) -> GoalBegun:
    return GoalBegun("a", one.spec, workdir="/")
