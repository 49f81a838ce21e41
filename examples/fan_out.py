"""A hundred items worked on side by side, each once, and their sum at the end.

python examples/fan_out.py

Kill it wherever you like and start it again: the key makes it the same goal.
"""

import asyncio
import sys
from pathlib import Path

from perdure import Goal, Happened, Perdure, flow

RESULTS = Path("results")
MEASURED = "measured\n"


async def measure(item: int) -> int:
    """Do the work of one item; a file stands for a system outside that is to see each item once."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{item}.txt").open("a", encoding="utf-8") as file:
        file.write(MEASURED)
    return await look_up(item)


async def look_up(item: int) -> int:
    """Ask what came of an item; asking changes nothing."""
    await asyncio.sleep(0.001)
    return item * item


async def was_measured(item: int) -> Happened[int] | bool:
    """Tell, after a crash, whether an item was worked on, and with which result."""
    path = RESULTS / f"{item}.txt"
    if path.exists() and path.read_text(encoding="utf-8") == MEASURED:
        return Happened(await look_up(item))
    return False


@flow
async def fan_out(goal: Goal, count: int) -> int:
    return sum(await goal.gather(*[goal.options(check=was_measured).step(measure, item) for item in range(count)]))


async def main(key: str) -> None:
    async with Perdure.open() as p:
        result = await p.goals.options(key=key).run(fan_out, 100)
        print(f"{result.id}: {result.status}", result.value)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "fan-out"))
