"""`p.goals.options(…).run` has a keyword that the flow does not have."""

from perdure import Goal, Perdure, flow


@flow
async def checkout(goal: Goal, cents: int) -> str:
    return await goal.step(str, cents)


async def main(p: Perdure) -> None:
    print(await p.goals.options(key="k").run(checkout, cents=5, tags=["x"]))  # error
