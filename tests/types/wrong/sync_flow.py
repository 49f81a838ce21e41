"""A flow is not async."""

from perdure import Goal, flow


@flow  # error
def checkout(goal: Goal, cents: int) -> str:
    return f"{goal.id} {cents}"
