"""One goal: an append through the store, and a whole step of the kernel, beside a raw commit."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median

from bench import floor
from bench.measure import DISK, TMPFS, Steps, in_turn, scratch
from bench.ours import Written, run_goal
from bench.table import Target, Timed
from perdure import DatabaseClient
from perdure.kernel.ports import GoalStore

Work = Callable[[GoalStore, int], Awaitable[list[float]]]


_ROUNDS = 4
"""One goal's steps are measured in so many parts: short ones beside short ones meet the same noise."""


def measure(n: int, repeats: int) -> list[Timed]:
    part = max(n // _ROUNDS, 1)
    rows = _beside_floor("tmpfs", TMPFS, part, repeats * _ROUNDS) if TMPFS.is_dir() else []
    return rows + _beside_floor("disk", DISK, part, repeats)


def _beside_floor(name: str, parent: Path, n: int, repeats: int) -> list[Timed]:
    ways = (
        partial(floor.sqlite_alone, parent, n),
        partial(ours, parent, n, append),
        partial(ours, parent, n, run),
    )
    raw, appended, stepped = (median(one.mean_us for one in found) for found in in_turn(*ways, repeats=repeats))
    is_free = name == "tmpfs"
    return [
        Timed(f"append, SQLite on {name}", raw, appended, "µs", Target("ratio", "≤", 5) if is_free else None),
        Timed(f"kernel step, SQLite on {name}", raw, stepped, "µs", Target("ratio", "≤", 8) if is_free else None),
    ]


def ours(parent: Path | None, n: int, work: Work) -> Steps:
    """Do n steps in a new database, after a few that warm it up."""

    async def main() -> Steps:
        async with await DatabaseClient.create(folder / "perdure.db") as db:
            store = db.state_store()
            await work(store, 5)
            start = time.perf_counter()
            each = await work(store, n)
            return Steps(time.perf_counter() - start, each)

    with scratch(parent) as folder:
        return asyncio.run(main())


async def append(store: GoalStore, n: int) -> list[float]:
    goal = await Written.begin(store, f"written-{n}")
    each = await goal.steps(n)
    await goal.end()  # a store that has one goal alone may commit where it is called
    return each


async def run(store: GoalStore, n: int) -> list[float]:
    return await run_goal(store, f"run-{n}", n)
