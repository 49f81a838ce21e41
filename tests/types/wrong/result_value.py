"""The value of a result is used as another type."""

from perdure import Goal, Perdure, flow


@flow
async def checkout(goal: Goal, cents: int) -> str:
    return await goal.step(str, cents)


async def main(p: Perdure) -> int:
    result = await p.goals.run(checkout, 5)
    return result.value + 1  # error
