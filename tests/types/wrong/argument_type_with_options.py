"""An argument of a step with options has the wrong type."""

from perdure import Goal, flow


async def charge(cents: int) -> str:
    return str(cents)


@flow
async def checkout(goal: Goal) -> str:
    return await goal.options(effect="idempotent").step(charge, cents="five")  # error
