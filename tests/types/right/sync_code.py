"""Sync code waits for one awaitable at a time, and gets its type."""

from typing import assert_type

import perdure
from perdure import Goal, GoalResult, Perdure, flow
from perdure.sync import Wait


@flow
async def shout(goal: Goal, text: str) -> str:
    return await goal.step(text.upper)


def main(home: str) -> str:
    with perdure.sync.open(home) as (p, wait):
        assert_type(p, Perdure)
        result = wait(p.goals.run(shout, "hello"))
        assert_type(result, GoalResult[str])
        return lower(p, wait)


def lower(p: Perdure, wait: Wait) -> str:
    handle = wait(p.goals.start(shout, "hello"))
    return wait(handle.result()).value.lower()
