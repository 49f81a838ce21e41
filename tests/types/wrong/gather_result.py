"""A result of a gather is used as the type of another one."""

from perdure import Goal, flow


@flow
async def checkout(goal: Goal) -> int:
    _, text = await goal.gather(goal.step(len, "a"), goal.step(str, 1))
    return text  # error
