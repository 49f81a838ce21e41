"""A hundred items worked on side by side, each exactly once, and a sum at the end.

python examples/fan_out.py
"""

import asyncio
import sys
from pathlib import Path

from perdure import Goal, Perdure, flow

RESULTS = Path("results")


async def measure(item: int) -> int:
    """Do the work of one item; a file stands for a system outside that has to see each item once."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{item}.txt").open("a", encoding="utf-8") as file:
        file.write("measured\n")
    await asyncio.sleep(0.001)
    return item * item


def was_measured(item: int) -> bool:
    """Tell, after a crash, whether an item was worked on."""
    return (RESULTS / f"{item}.txt").exists()


async def one(goal: Goal, item: int) -> int:
    """Measure an item; what a crash left without its result is worked out again without touching the outside."""
    found = await goal.step(measure, item, check=was_measured)
    return int(found) if found is not None else await goal.step(square, item, effect="pure")


def square(item: int) -> int:
    return item * item


@flow
async def fan_out(goal: Goal, count: int) -> int:
    return sum(await goal.gather(*[one(goal, item) for item in range(count)]))


async def main(key: str) -> None:
    async with Perdure.open() as p:
        result = await p.goals.run(fan_out, 100, key=key)
        print(f"{result.id}: {result.status}", result.value)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "fan-out"))
