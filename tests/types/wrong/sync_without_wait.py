"""A result is used that was not waited for."""

import perdure
from perdure import Goal, flow


@flow
async def checkout(goal: Goal, cents: int) -> str:
    return await goal.step(str, cents)


def main() -> None:
    with perdure.sync.open() as (p, _wait):
        print(p.goals.run(checkout, 5).value)  # error
