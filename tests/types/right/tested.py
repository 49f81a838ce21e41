"""A test of a flow: a home of its own, a clock that is moved by hand, functions that are replaced."""

from typing import assert_type

import perdure.testing
from perdure import Goal, GoalResult, Perdure, flow
from perdure.testing import ManualClock, TemporaryHome


def charge(order: str, cents: int) -> str:
    return f"{order} {cents}"


@flow
async def checkout(goal: Goal, order: str) -> str:
    await goal.sleep(24 * 3600)
    return await goal.step(charge, order, 500)


async def test_it() -> None:
    async def fake(order: str, cents: int) -> str:
        return f"{order}: {cents}"

    async with perdure.testing.home() as p:
        assert_type(p, TemporaryHome)
        opened: Perdure = p
        clock: ManualClock = p.clock
        with p.replace(charge, fake):
            handle = await opened.goals.start(checkout, "A-1")
            await clock.advance(24 * 3600)
            result = await handle.result(timeout_s=5)
        assert_type(result, GoalResult[str])
        await p.crash()
