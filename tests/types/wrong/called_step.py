"""A step is given the result of a call, not the function."""

from perdure import Goal, flow


def charge(cents: int) -> str:
    return str(cents)


@flow
async def checkout(goal: Goal) -> str:
    return await goal.step(charge(5))  # error
