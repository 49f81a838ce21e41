"""A gather of two has no third result."""

from perdure import Goal, flow


@flow
async def checkout(goal: Goal) -> None:
    found = await goal.gather(goal.step(len, "a"), goal.step(str, 1))
    print(found[2])  # error
