"""An effect that does not exist."""

from perdure import Goal, flow


def charge(cents: int) -> str:
    return str(cents)


@flow
async def checkout(goal: Goal) -> str:
    return await goal.options(effect="twice").step(charge, 5)  # error
