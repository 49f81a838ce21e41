"""The result of a gather is used as another type."""

from perdure import Goal, flow


@flow
async def checkout(goal: Goal) -> int:
    found = await goal.gather(goal.step(len, "a"), goal.step(str, 1))
    return found[0]  # error
