"""`p.goals.run` is given a function without `@flow`."""

from perdure import Goal, Perdure


async def checkout(goal: Goal, cents: int) -> str:
    return await goal.step(str, cents)


async def main(p: Perdure) -> None:
    print(await p.goals.run(checkout, 5))  # error
