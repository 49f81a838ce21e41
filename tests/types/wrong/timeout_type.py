"""A timeout is not a number."""

from perdure import Goal, flow


@flow
async def checkout(goal: Goal) -> None:
    await goal.sleep("1h")  # error
