"""The value of the result of a handle is used as another type."""

from perdure import Goal, Perdure, flow


@flow
async def checkout(goal: Goal, cents: int) -> str:
    return await goal.step(str, cents)


async def main(p: Perdure) -> int:
    handle = await p.goals.start(checkout, 5)
    return (await handle.result()).value  # error
