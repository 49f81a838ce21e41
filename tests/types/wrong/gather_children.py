"""The results of two children are taken in the wrong order."""

from perdure import Goal, flow


@flow
async def ship(goal: Goal, order: str) -> int:
    return await goal.step(len, order)


@flow
async def invoice(goal: Goal, order: str) -> str:
    return await goal.step(str, order)


@flow
async def checkout(goal: Goal) -> str:
    _, paper = await goal.gather(goal.child(invoice, "A-1"), goal.child(ship, "A-1"))
    return paper  # error
