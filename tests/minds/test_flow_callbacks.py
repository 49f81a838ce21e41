"""What a flow has scheduled on its event loop is seen, whenever it gets ready."""

import asyncio
import time
from contextvars import ContextVar, copy_context

from perdure.minds.flow.execution.event_loop import FlowCallbacks

OWN: ContextVar[bool] = ContextVar("own", default=False)


async def test_a_timer_that_fires_in_the_turn_that_a_blocking_flow_leaves_to_others_has_run_at_rest() -> None:
    fired: list[str] = []

    async def block() -> None:
        time.sleep(0.011)  # noqa: ASYNC251 (this is the case)
        loop = asyncio.get_running_loop()
        loop.call_at(loop.time(), fired.append, "timer")  # it gets ready in the next turn

    context = copy_context()
    context.run(OWN.set, True)
    callbacks = FlowCallbacks(lambda each: each.get(OWN, False))
    asyncio.create_task(block(), context=context)  # noqa: RUF006 (it has ended at rest)
    await callbacks.rest()
    assert fired == ["timer"]
