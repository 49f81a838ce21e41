"""An option is given to the step, not before it."""

from perdure import Goal, flow


def charge(cents: int) -> str:
    return str(cents)


@flow
async def checkout(goal: Goal) -> str:
    return await goal.step(charge, 5, effect="pure")  # error
