"""A child has an argument of the wrong type."""

from perdure import Goal, flow


@flow
async def ship(goal: Goal, order: str) -> int:
    return await goal.step(len, order)


@flow
async def checkout(goal: Goal) -> int:
    return await goal.child(ship, 5)  # error
