"""Flows with deadlines of asyncio and anyio and with sleeps that are not recorded as steps."""

import asyncio
from contextlib import suppress
from typing import Any

import anyio

from perdure.minds.flow.goal import Goal

LENGTH_S = 0.08
"""The length of a deadline: one that has passed before it is armed, on a busy machine, is not a timer."""
NAPS = [0.08, 0.02]
"""How long two sleeps take; a test changes it between two runs of a flow."""
GATE: list[asyncio.Event] = []
"""What a step waits for."""


async def forever() -> None:
    await asyncio.Event().wait()


async def until_gate() -> str:
    await GATE[-1].wait()
    return "open"


async def number(value: int) -> int:
    return value


async def once(goal: Goal, value: int) -> int:
    return await goal.options(effect="idempotent").step(number, value)


async def deadline(goal: Goal) -> Any:
    try:
        async with asyncio.timeout(LENGTH_S):
            await goal.options(effect="idempotent").step(forever)
    except TimeoutError:
        return ["late", await once(goal, 1)]


async def deadline_around_a_pure_step(goal: Goal) -> Any:
    first = await once(goal, 1)
    with anyio.move_on_after(LENGTH_S) as scope:
        await goal.options(effect="pure").step(forever)
    return [first, scope.cancelled_caught, await once(goal, 2)]


async def nested_deadlines_of_one_length(goal: Goal) -> Any:
    seen = []
    try:
        async with asyncio.timeout(LENGTH_S):
            try:
                async with asyncio.timeout(LENGTH_S):
                    await goal.options(effect="pure").step(forever)
            except TimeoutError:
                seen.append("inner")
                seen.append(str(await once(goal, 1)))
    except TimeoutError:
        seen.append("outer")
    return [*seen, await once(goal, 2)]


async def deadline_that_is_swallowed(goal: Goal) -> Any:
    GATE.append(asyncio.Event())
    step = asyncio.create_task(goal.options(effect="idempotent").step(until_gate))
    with suppress(TimeoutError):
        async with asyncio.timeout(LENGTH_S):
            await asyncio.shield(step)
    GATE[-1].set()
    return [await step, await once(goal, 1)]


async def deadlines_of_siblings(goal: Goal) -> Any:
    """Each cancels pure steps and then begins others, so the order of both shows in the names of the steps."""

    async def line(value: int) -> int:
        with suppress(TimeoutError):
            await asyncio.wait_for(goal.options(effect="pure").step(forever), NAPS[value])
        return await once(goal, value)

    return await asyncio.gather(line(0), line(1))


async def naps(goal: Goal) -> Any:
    order: list[int] = []

    async def nap(line: int) -> None:
        await asyncio.sleep(NAPS[line])
        order.append(line)

    await asyncio.gather(nap(0), nap(1))
    return [*order, await once(goal, 1), await once(goal, 2)]


async def polls(goal: Goal) -> Any:
    for _ in range(30):
        await asyncio.sleep(0.001)
    return await once(goal, 1)


async def cleans_up(goal: Goal) -> Any:
    await once(goal, 1)
    try:
        await goal.signal("never")
    finally:
        with suppress(TimeoutError):  # shorter: the clock of the goal runs fast, and ends a cleanup
            async with asyncio.timeout(0.02):
                await goal.options(effect="pure").step(forever)
        await once(goal, 2)
