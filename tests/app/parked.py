"""Runs that end because their goal waits."""

from collections.abc import Awaitable

import pytest

from perdure import GoalResult, GoalWaiting


async def parked(run: Awaitable[GoalResult]) -> GoalWaiting:
    """Return what a run raises whose goal waits."""
    with pytest.raises(GoalWaiting) as waiting:
        await run
    return waiting.value
