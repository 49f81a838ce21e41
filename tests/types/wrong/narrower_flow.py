"""A flow is given where one with a narrower result is needed."""

from perdure import Flow, Goal, flow


@flow
async def find(goal: Goal, order: str) -> str | None:
    return await goal.step(str, order)


needed: Flow[[str], str] = find  # error
