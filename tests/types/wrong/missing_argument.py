"""An argument of a step is missing."""

from perdure import Goal, flow


def charge(order: str, cents: int) -> str:
    return f"{order} {cents}"


@flow
async def checkout(goal: Goal) -> str:
    return await goal.step(charge, "A-1")  # error
