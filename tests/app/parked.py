"""Runs that end because their goal waits."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from perdure import GoalHandle, GoalResult, GoalWaiting

_TRIES = 3_000


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
