"""The result of a step is used without `await`."""

from perdure import Goal, flow


def charge(cents: int) -> str:
    return str(cents)


@flow
async def checkout(goal: Goal) -> str:
    receipt = goal.step(charge, 5)
    return receipt.upper()  # error
