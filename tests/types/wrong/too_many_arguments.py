"""A step has one argument too many."""

from perdure import Goal, flow


async def charge(cents: int) -> str:
    return str(cents)


@flow
async def checkout(goal: Goal) -> str:
    return await goal.step(charge, 5, 6)  # error
