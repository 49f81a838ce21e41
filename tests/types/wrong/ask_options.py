"""The options of a question are not texts."""

from perdure import Goal, flow


@flow
async def checkout(goal: Goal) -> object:
    return await goal.ask("How many?", [1, 2])  # error
