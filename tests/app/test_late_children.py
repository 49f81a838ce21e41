"""A child that a dead worker had begun to store, and that is there only when the next worker creates it."""

import asyncio
import threading
from pathlib import Path

from perdure import Goal, Perdure, failpoints, flow
from perdure.app.home.system import SystemClock, SystemIds
from perdure.kernel.calls.children import child_of, start_key
from perdure.kernel.events import GoalBegun, MindSpec, ParentCall, ToolCall
from perdure.kernel.journal import Journal, JournalDeps
from perdure.kernel.ports import Worker


def double(number: int) -> int:
    return 2 * number


@flow
async def doubled(goal: Goal, number: int) -> int:
    return await goal.options(effect="idempotent").step(double, number)


@flow
async def parent_of_doubled(goal: Goal) -> int:
    return await goal.child(doubled, 21)


async def _store_child(home: Path) -> None:
    """Store the child that the only goal has called, as its worker does before it dies."""
    async with Perdure.open(home) as p:
        (parent,) = await p.goals.list()
        state = await p.goals.state(parent.id)
        (found,) = state.open_calls.values()
        assert isinstance(found.call, ToolCall)
        asked, worker = found.call.arguments, Worker("gone", "host", "home", "boot")
        spec = MindSpec("flow", flow=asked["flow"], at=asked["at"], args=asked["args"])
        begun = GoalBegun("doubled", spec, workdir="/", parent=ParentCall(parent.id, found.call.call_id))
        leases = p.database.leases(boottime_s=SystemClock().boottime_s, is_dead=lambda _: True)
        await leases.renew(worker, 30)
        deps = JournalDeps(p.database.state_store(), SystemClock(), SystemIds(), worker, parent.summary.queue)
        key = start_key(parent.id, found.call.call_id)
        await Journal.begin(deps, begun, child_of(found), start_key=key).commit(release=True)


async def test_a_child_that_is_stored_late_is_run_and_not_taken_for_another_goal(tmp_path: Path) -> None:
    home, appends = tmp_path / "home", 0

    def store_child_before_it_is_created() -> None:
        nonlocal appends
        appends += 1
        if appends == 2:
            thread = threading.Thread(target=asyncio.run, args=(_store_child(home),))
            thread.start()
            thread.join()

    async with Perdure.open(home) as p:
        with failpoints.armed("kernel.append.before", store_child_before_it_is_created):
            result = await p.goals.run(parent_of_doubled)
        assert result.value == 42
        assert len(await p.goals.list()) == 2
