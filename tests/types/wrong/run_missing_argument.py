"""`p.goals.run` lacks an argument of the flow."""

from perdure import Goal, Perdure, flow


@flow
async def checkout(goal: Goal, cents: int) -> str:
    return await goal.step(str, cents)


async def main(p: Perdure) -> None:
    print(await p.goals.run(checkout))  # error
