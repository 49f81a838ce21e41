"""A flow returns another type than it says."""

from perdure import Goal, flow


def charge(cents: int) -> str:
    return str(cents)


@flow
async def checkout(goal: Goal) -> int:
    return await goal.step(charge, 5)  # error
