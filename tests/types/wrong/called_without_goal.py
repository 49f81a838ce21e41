"""A flow is called with its arguments, without a goal."""

from perdure import Goal, flow


@flow
async def checkout(goal: Goal, cents: int) -> str:
    return await goal.step(str, cents)


async def main() -> None:
    print(await checkout(5))  # error
