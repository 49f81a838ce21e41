"""An argument of a step has the wrong type."""

from perdure import Goal, flow


def charge(cents: int) -> str:
    return str(cents)


@flow
async def checkout(goal: Goal) -> str:
    return await goal.step(charge, "five")  # error
