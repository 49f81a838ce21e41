"""Perdure: steps of a flow, through the Python API."""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.peers.program import GOALS, LISTS, PAGE, WARM, Asked, NewSteps, per_second, require_page, run, us_each
from bench.peers.step import payload
from perdure import Goal, Perdure, flow

_PACKAGE = "perdure"
_NEW = NewSteps()
_KEY = "resumed"
_ENDLESS = 10**9


async def search(number: int) -> dict[str, Any]:
    """Do a step."""
    _NEW.begins(_PACKAGE, number)
    return payload(number)


@flow
async def searching(goal: Goal, steps: int) -> None:
    """Do steps."""
    for number in range(steps):
        await goal.options(effect="idempotent").step(search, number)


def _opened(asked: Asked, work: Callable[[Perdure], Awaitable[float | None]]) -> float | None:
    async def main() -> float | None:
        async with Perdure.open(asked.folder, database_url=asked.url) as p:
            return await work(p)

    return asyncio.run(main())


def _steps(asked: Asked) -> float | None:
    async def work(p: Perdure) -> float:
        await p.goals.run(searching, WARM)
        start = time.perf_counter()
        await p.goals.run(searching, asked.n)
        return us_each(start, asked.n)

    return _opened(asked, work)


def _many(asked: Asked) -> float | None:
    async def work(p: Perdure) -> float:
        await p.goals.run(searching, WARM)
        start = time.perf_counter()
        await asyncio.gather(*(p.goals.run(searching, asked.n) for _ in range(GOALS)))
        return per_second(start, GOALS * asked.n)

    return _opened(asked, work)


def _prepare(asked: Asked) -> float | None:
    _NEW.dies_at = asked.n
    return _endless(asked)


def _resume(asked: Asked) -> float | None:
    _NEW.tells_at = 2
    return _endless(asked)


def _endless(asked: Asked) -> float | None:
    async def work(p: Perdure) -> None:
        await p.goals.options(key=_KEY).run(searching, _ENDLESS)
        raise RuntimeError("it was to end in the middle")

    return _opened(asked, work)


def _fill(asked: Asked) -> None:
    async def work(p: Perdure) -> None:
        await p.goals.run(searching, 1)

    _opened(asked, work)
    with sqlite3.connect(Path(asked.folder) / "perdure.db") as connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(goals)") if row[1] != "goal_no"]
        copied = ["id || '-' || number" if name == "id" else name for name in names]
        connection.execute(
            "WITH RECURSIVE numbers (number) AS"
            f" (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < {asked.n})"
            f" INSERT INTO goals ({', '.join(names)}) SELECT {', '.join(copied)} FROM goals, numbers"
        )
    connection.close()


def _list(asked: Asked) -> float | None:
    from statistics import median

    async def work(p: Perdure) -> float:
        each = []
        for _ in range(LISTS + 1):
            start = time.perf_counter()
            page = await p.goals.list(limit=PAGE)
            each.append((time.perf_counter() - start) * 1e3)
            require_page(len(page))
        return median(each[1:])

    return _opened(asked, work)


def _cold(asked: Asked) -> float | None:
    _NEW.tells_at = 2

    async def work(p: Perdure) -> None:
        await p.goals.run(searching, WARM)

    return _opened(asked, work)


if __name__ == "__main__":
    run(
        {
            "steps": _steps,
            "many": _many,
            "prepare": _prepare,
            "resume": _resume,
            "fill": _fill,
            "list": _list,
            "cold": _cold,
        },
        _PACKAGE,
    )
