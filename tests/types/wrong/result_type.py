"""The result of a step is used as another type."""

from perdure import Goal, flow


def charge(cents: int) -> str:
    return str(cents)


@flow
async def checkout(goal: Goal) -> int:
    receipt = await goal.step(charge, 5)
    return receipt + 1  # error
