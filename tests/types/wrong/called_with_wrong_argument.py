"""A flow is called by another with the wrong argument."""

from perdure import Goal, flow


@flow
async def checkout(goal: Goal, cents: int) -> str:
    return await goal.step(str, cents)


@flow
async def day(goal: Goal) -> str:
    return await checkout(goal, "five")  # error
