"""A call of the goal on another event loop, such as that of a thread, is refused; it would wait for ever."""

import asyncio

from perdure import Goal, Invalid
from perdure.kernel.events import MindSpec
from tests.kernel.world import World
from tests.registered_flows import path_of


def act() -> str:
    return "done"


async def test_a_step_that_is_called_on_another_event_loop_is_refused(world: World) -> None:
    async def one(goal: Goal) -> str:
        try:
            await asyncio.to_thread(lambda: asyncio.run(goal.step(act)))
        except Invalid as error:
            return f"{error.detail} {await goal.step(act)}"
        return "it was run"

    async with asyncio.timeout(30):
        done = await world.start(MindSpec("flow", at=path_of(one)))
    assert done.state.termination is not None
    assert done.state.termination.value == (
        "act was called on another event loop, for example on a thread. Call the steps of a flow on the event loop that"
        " runs the flow. done"
    )
