"""The result of a child is used as another type."""

from perdure import Goal, flow


@flow
async def ship(goal: Goal, order: str) -> int:
    return await goal.step(len, order)


@flow
async def checkout(goal: Goal) -> str:
    shipped = await goal.child(ship, "A-1")
    return shipped.upper()  # error
