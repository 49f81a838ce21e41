"""A flow that only does steps, and goals that run it through all of the application, as a user's program would."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.peers.step import payload
from perdure import DatabaseClient, Goal, flow
from perdure.app.goals.goals import Goals
from perdure.app.home.system import SystemClock, is_dead
from perdure.kernel.events import Effect

_LONG_S = 3600.0
"""A lease so long that no worker renews it while something is counted."""


async def search(number: int) -> dict[str, Any]:
    """Answer at once, with what the floor writes."""
    return payload(number)


async def sized(number: int, size: int) -> str:  # noqa: ARG001 (steps are told apart by it)
    """Answer with a text that is exactly so many bytes of JSON."""
    return "x" * (size - 2)


@flow
async def searching(goal: Goal, steps: int) -> None:
    for number in range(steps):
        await goal.options(effect="idempotent").step(search, number)


@flow
async def answering(goal: Goal, steps: int, size: int, effect: Effect) -> None:
    for number in range(steps):
        await goal.options(effect=effect).step(sized, number, size)


@asynccontextmanager
async def steady(db: DatabaseClient, home: Path) -> AsyncIterator[Goals]:
    """Open the goals of a home whose worker is at work already: what is counted then is that of its goals alone."""
    leases = db.leases(boottime_s=SystemClock().boottime_s, is_dead=partial(is_dead, home))
    goals = Goals(home, db.state_store(), leases, lease_s=_LONG_S)
    begun = asyncio.Event()

    async def hold() -> None:
        begun.set()
        await asyncio.Event().wait()

    @flow
    async def holding(goal: Goal) -> None:
        await goal.options(effect="pure").step(hold)

    await goals.run(searching, 1)
    busy = asyncio.create_task(goals.run(holding))
    await begun.wait()
    try:
        yield goals
    finally:
        busy.cancel()
        await asyncio.wait([busy])
        await goals.close()


async def together(run: Callable[[], Awaitable[object]], goals: int) -> None:
    """Run so many goals at once."""
    await asyncio.gather(*(run() for _ in range(goals)))
