"""A step is never awaited."""

from perdure import Goal, flow


@flow
async def checkout(goal: Goal) -> None:
    goal.step(print, "charged")  # error
