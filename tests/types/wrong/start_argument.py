"""`p.goals.start` has an argument of the wrong type."""

from perdure import Goal, Perdure, flow


@flow
async def checkout(goal: Goal, cents: int) -> str:
    return await goal.step(str, cents)


async def main(p: Perdure) -> None:
    print(await p.goals.start(checkout, "five"))  # error
