"""A step has a keyword that its function does not have."""

from perdure import Goal, flow


def charge(cents: int) -> str:
    return str(cents)


@flow
async def checkout(goal: Goal) -> str:
    return await goal.step(charge, 5, currency="EUR")  # error
