"""A goal that is cancelled while a timer of it falls due ends once."""

import asyncio

from perdure.kernel.events import MindSpec
from perdure.kernel.loop import Loop
from perdure.minds.flow.execution.event_loop import FlowCallbacks
from perdure.minds.flow.flow import Flow
from perdure.minds.flow.goal import Goal
from tests.kernel.world import World


async def test_a_timer_that_falls_due_while_a_cancel_ends_the_steps_is_not_recorded(world: World) -> None:
    async def slow_to_end() -> None:
        await world.store.post("goal-a", "cancel", {}, key="cancel")
        loops[0].check_inbox()
        try:
            await asyncio.Event().wait()
        finally:
            world.clock.now += 100_000_000

    async def beside_a_timer(goal: Goal) -> None:
        await goal.gather(goal.step(slow_to_end), goal.sleep(50))

    loops: list[Loop] = []
    world.watch = loops.append
    flow = Flow(beside_a_timer)
    ran = await asyncio.wait_for(world.start(MindSpec("flow", at=flow.path)), 10)
    assert ran.state.status == "cancelled"


async def test_callbacks_are_counted_while_another_thread_schedules_more() -> None:
    loop = asyncio.get_running_loop()
    scheduled = 0

    def is_of_flow(_context: object) -> bool:
        nonlocal scheduled
        if scheduled < 50:
            scheduled += 1
            loop.call_soon_threadsafe(int)  # as a step on a thread does, in the middle of the count
        return False

    loop.call_soon(int)
    callbacks = FlowCallbacks(is_of_flow)
    assert not callbacks.has_ready()
    assert scheduled > 0
