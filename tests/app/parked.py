"""Runs that end because their goal waits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from perdure import GoalHandle, GoalResult, GoalWaiting, Perdure
from perdure.app.goals.goals import Goals
from perdure.app.home.system import SystemClock, is_dead

_TRIES = 3_000
_PAST_US = 1_577_836_800_000_000


class PastClock(SystemClock):
    """Stands still in the year 2020: what sleeps under it is not due there, however slow the machine, but elsewhere."""

    def now_us(self) -> int:
        return _PAST_US


@asynccontextmanager
async def parking(p: Perdure) -> AsyncIterator[Goals]:
    """The goals as another process has them, which parks at once; a goal that sleeps there is due for this process."""
    home = p.settings.home
    leases = p.database.leases(boottime_s=SystemClock().boottime_s, is_dead=partial(is_dead, home))
    goals = Goals(home, p.database.state_store(), leases, clock=PastClock(), park_after_s=0)
    try:
        yield goals
    finally:
        await goals.close()


async def parked(run: Awaitable[GoalResult[Any]]) -> GoalWaiting:
    """Return what a run raises whose goal waits."""
    with pytest.raises(GoalWaiting) as waiting:
        await run
    return waiting.value


async def until_waiting(handle: GoalHandle[Any]) -> None:
    """Wait until a goal in the background waits."""
    await until_status(handle, "waiting")


async def until_status(handle: GoalHandle[Any], status: str) -> None:
    """Wait until a goal in the background has a status."""
    for _ in range(_TRIES):
        if await handle.status() == status:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{handle} is {await handle.status()}")
