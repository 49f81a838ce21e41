"""The result of the first of two children is used as that of one of them only."""

from perdure import Goal, flow


@flow
async def ship(goal: Goal, order: str) -> int:
    return await goal.step(len, order)


@flow
async def invoice(goal: Goal, order: str) -> str:
    return await goal.step(str, order)


@flow
async def checkout(goal: Goal) -> int:
    found = await goal.first(goal.child(ship, "A-1"), goal.child(invoice, "A-1"))
    return found.value  # error
