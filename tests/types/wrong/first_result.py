"""The result of `goal.first` is used as one of its types only."""

from perdure import Goal, flow


@flow
async def checkout(goal: Goal) -> str:
    found = await goal.first(goal.step(len, "a"), goal.step(str, 1))
    return found.value.upper()  # error
