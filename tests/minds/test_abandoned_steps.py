"""Pure steps that a deadline cancels while the database is slow: nothing of them is recorded."""

import asyncio
from typing import Any

import pytest

from perdure.kernel.events import MindSpec, ToolOutput
from perdure.kernel.fold import GoalState
from perdure.kernel.loop import Loop
from perdure.minds.flow.goal import Goal
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.world import World
from tests.registered_flows import path_of

_DEADLINE_S = 0.02


class Slow(InMemoryStateStore):
    """A store that takes longer to append than a deadline of the flow; a run can be stopped meanwhile."""

    def __init__(self, *, is_stopping: bool, dead: set[str]) -> None:
        super().__init__(is_dead=dead.__contains__)
        self.loops: list[Loop] = []
        self.is_stopping = is_stopping
        self._appends = 0

    async def append_event(self, *args: Any, **kwargs: Any) -> Any:
        self._appends += 1
        if self._appends > 1:
            await asyncio.sleep(_DEADLINE_S * 2)
            if self.is_stopping:
                self.loops[-1].stop()
        return await super().append_event(*args, **kwargs)


def one() -> int:
    return 1


def pure() -> int:
    return 2


async def under_a_deadline(goal: Goal) -> Any:
    first = await goal.options(effect="idempotent").step(one)
    try:
        async with asyncio.timeout(_DEADLINE_S):
            return await goal.options(effect="pure").step(pure)
    except TimeoutError:
        await asyncio.sleep(_DEADLINE_S * 4)  # nothing new is asked for while the append ends
        await goal.options(effect="idempotent").step(one)
        return [first, "late"]


@pytest.mark.parametrize("is_stopped", [False, True], ids=["running", "stopped"])
async def test_a_pure_step_whose_deadline_passes_before_it_starts_is_not_recorded(*, is_stopped: bool) -> None:
    dead: set[str] = set()
    store = Slow(is_stopping=is_stopped, dead=dead)
    world = World(store, store, dead=dead, watch=store.loops.append)
    ran = await asyncio.wait_for(world.start(MindSpec("flow", at=path_of(under_a_deadline))), 10)
    assert "pure" not in _steps_with_outcome(ran.state)
    if is_stopped:
        assert ran.outcome == "interrupted"
        store.is_stopping = False
        ran = await asyncio.wait_for(world.resume(), 10)
    assert ran.state.termination is not None
    is_in_time = is_stopped and ran.state.termination.value == 2  # the deadline begins anew, and the store is quick
    assert is_in_time or ran.state.termination.value == [1, "late"]


def _steps_with_outcome(state: GoalState) -> set[str]:
    return {call.call.step for call in state.calls.values() if isinstance(call.outcome, ToolOutput)}
