"""A key is given to `run`, not before it."""

from perdure import Goal, Perdure, flow


@flow
async def checkout(goal: Goal, cents: int) -> str:
    return await goal.step(str, cents)


async def main(p: Perdure) -> None:
    print(await p.goals.run(checkout, 5, key="order-1"))  # error
