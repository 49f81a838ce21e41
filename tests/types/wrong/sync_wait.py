"""The value that `wait` returns is used as another type."""

import perdure
from perdure import Goal, flow


@flow
async def checkout(goal: Goal, cents: int) -> str:
    return await goal.step(str, cents)


def main() -> int:
    with perdure.sync.open() as (p, wait):
        return wait(p.goals.run(checkout, 5)).value  # error
