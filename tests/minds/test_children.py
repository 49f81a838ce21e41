"""The calls that start children: what is recorded, and that a goal ends alike wherever it or its child dies."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import failpoints
from perdure.errors import GoalCancelled, GoalFailed
from perdure.kernel.calls.children import child_goal_id, outcome_of, start_key
from perdure.kernel.events import GoalBegun, MindSpec, ParentCall, ToolCall, ToolOutput
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.journal import Journal
from perdure.minds.flow.execution.recorded_steps import ChangedFlow
from perdure.minds.flow.flow import Flow
from perdure.minds.flow.goal import Goal
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.world import World
from tests.registered_flows import path_of


class Died(BaseException):
    """Stands for a kill."""


@dataclass
class ChildrenInTurn:
    """Runs each child to its end or wait where it is started."""

    world: World
    created: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    async def start(self, parent: GoalState, calls: Sequence[ToolCall], queue: str) -> Sequence[ToolOutput]:  # noqa: ARG002
        known: list[ToolOutput] = []
        for call in calls:
            goal_id = call.arguments["goal_id"]
            found = [goal for goal in await self.world.store.list_goals() if goal.goal_id == goal_id]
            if not found:
                await self._create(parent, call)
            elif not found[0].is_final:
                await self.world.resume(goal_id)
            elif (ended := await outcome_of(self.world.store, parent, goal_id)) is not None:
                known.append(ended)
        return known

    async def _create(self, parent: GoalState, call: ToolCall) -> None:
        asked = call.arguments
        worker = self.world.new_worker()
        await self.world.leases.renew(worker, 30)
        spec = MindSpec("flow", flow=asked["flow"], at=asked["at"], args=asked["args"])
        begun = GoalBegun("a", spec, workdir="/", parent=ParentCall(parent.goal_id, call.call_id))
        key = start_key(parent.goal_id, call.call_id)
        journal = Journal.begin(self.world._journal_deps(worker), begun, asked["goal_id"], start_key=key)
        self.created.append(asked["goal_id"])
        await self.world._run(journal, worker, is_resumed=False)

    async def cancel(self, goal_ids: Collection[str]) -> None:
        self.cancelled += goal_ids

    async def are_active(self, goal_ids: Collection[str]) -> bool:  # noqa: ARG002 (as the port says)
        return False


def quick(number: int) -> int:
    return number


def broken() -> None:
    raise ValueError("no luck")


async def kid(goal: Goal, number: int) -> int:
    return await goal.options(effect="idempotent").step(quick, number)


async def bad_kid(goal: Goal) -> None:
    await goal.options(effect="idempotent").step(broken)


KID, BAD_KID = Flow(kid), Flow(bad_kid)


async def one_after_the_other(goal: Goal) -> Any:
    return [await goal.child(KID, 1), await goal.options(id="second").child(KID, number=2)]


async def side_by_side(goal: Goal) -> Any:
    return await goal.gather(*(goal.child(KID, number) for number in range(3)))


async def caught(goal: Goal) -> Any:
    try:
        await goal.child(BAD_KID)
    except GoalCancelled:
        return "cancelled"
    except GoalFailed as error:
        return [error.detail, await goal.child(KID, 4)]


FLOWS = [(one_after_the_other, [1, 2]), (side_by_side, [0, 1, 2]), (caught, None)]


async def run_to_end(fn: Any, point: str | None = None, die_at: int | None = None) -> tuple[World, GoalState]:
    """Run a flow until its end; it dies once, at the nth hit of a point."""
    dead: set[str] = set()
    store = InMemoryStateStore(is_dead=dead.__contains__)
    world = World(store, store, dead=dead)
    world.children = ChildrenInTurn(world)
    path, hits = path_of(fn), 0

    def die() -> None:
        nonlocal hits
        hits += 1
        if hits == die_at:
            raise Died

    with failpoints.armed(point or "kernel.append.after", die):
        for _ in range(20):
            with suppress(Died):
                if not await store.list_goals():
                    await world.start(MindSpec("flow", at=path))
                else:
                    await world.resume()
            state = fold(await store.load("goal-a")) if await store.list_goals() else None
            if state is not None and state.termination is not None:
                return world, state
    raise AssertionError(f"{fn.__name__} never ended")


@pytest.mark.parametrize(
    "point", ["kernel.append.before", "kernel.append.after", "kernel.children.before", "kernel.children.after"]
)
@pytest.mark.parametrize(("fn", "value"), FLOWS, ids=lambda each: getattr(each, "__name__", ""))
async def test_a_goal_with_children_ends_alike_wherever_one_of_them_dies(fn: Any, value: Any, point: str) -> None:
    world, clean = await run_to_end(fn)
    assert clean.termination is not None
    assert clean.termination.reason == "done", clean.termination
    assert value in (None, clean.termination.value)
    ids = {goal.goal_id for goal in await world.store.list_goals()}
    for die_at in range(1, 16):
        world, killed = await run_to_end(fn, point, die_at)
        assert killed.termination == clean.termination
        assert not killed.open_calls
        goals = await world.store.list_goals()
        assert {goal.goal_id for goal in goals} == ids
        assert {goal.status for goal in goals if goal.parent is not None} <= {"done", "failed"}


async def test_a_child_with_other_arguments_is_a_changed_flow(world: World) -> None:
    world.children = ChildrenInTurn(world)
    numbers = [1]

    async def changing(goal: Goal) -> Any:
        await goal.child(KID, numbers[0])
        return await goal.ask("Publish?")

    await world.start(MindSpec("flow", at=path_of(changing)))
    numbers[0] = 2
    with pytest.raises(ChangedFlow, match="other arguments"):
        await world.resume()


async def test_a_parent_whose_child_waits_is_released_and_not_due(world: World) -> None:
    world.children = ChildrenInTurn(world)

    async def asking(goal: Goal) -> Any:
        return await goal.ask("Publish?")

    child = Flow(asking)

    async def waiting(goal: Goal) -> Any:
        return await goal.child(child)

    ran = await world.start(MindSpec("flow", at=path_of(waiting)))
    row = await world.store.find("goal-a")
    assert (ran.outcome, row.status, row.waiting_for, row.worker, row.due_us) == (
        *("waiting", "waiting", "child"),
        None,
        None,
    )


async def test_a_parent_that_died_before_its_child_was_created_is_due(world: World) -> None:
    world.children = ChildrenInTurn(world)

    def die() -> None:
        raise Died

    with failpoints.armed("kernel.children.before", die), pytest.raises(Died):
        await world.start(MindSpec("flow", at=path_of(one_after_the_other)))
    [row] = await world.store.due(world.clock.now_us())
    assert (row.goal_id, row.status, row.waiting_for) == ("goal-a", "waiting", "child")
    await world.settle()  # what only records posts leaves it due
    assert [goal.goal_id for goal in await world.store.due(world.clock.now_us())] == ["goal-a"]


@given(st.text(), st.text(min_size=1, max_size=400), st.text())
def test_ids_and_keys_of_children_can_be_stored(parent: str, step: str, flow: str) -> None:
    goal_id = child_goal_id(f"20261116-113130-{parent}", step, flow)
    assert goal_id.startswith("20261116-113130-")
    assert goal_id.isascii()
    assert goal_id == child_goal_id(f"20261116-113130-{parent}", step, flow)
    assert goal_id != child_goal_id(f"20261116-113130-{parent}x", step, flow)
    assert len(start_key("20261116-113130-parent-24qx2u", step)) <= 200
