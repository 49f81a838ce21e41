"""A page of a long list, beside the same query through the driver alone."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.histories import many_goals
from bench.measure import scratch
from bench.table import Target, Timed
from bench.traced import statements
from perdure import DatabaseClient

_GOALS = 100_000
_PAGE = 50
_TIMES = 20


def measure(repeats: int) -> list[Timed]:
    with scratch() as home:
        path = home / "perdure.db"
        many_goals(path, _GOALS)
        asked = statements(home, "goal", "list", "--json")
        query = next(each for each in asked if "FROM goals" in each)
        raw, ours = asyncio.run(_pages(path, query, repeats))
    return [Timed(f"{_PAGE} of {_GOALS:,} goals, store", raw, ours, "ms", Target("value", "≤", 0.5))]


async def _pages(path: Path, query: str, repeats: int) -> tuple[float, float]:
    connection = sqlite3.connect(path)
    raw, ours = [], []
    async with await DatabaseClient.create(path) as db:
        store = db.state_store()
        await store.list_goals(limit=_PAGE)
        for _ in range(repeats * _TIMES):
            raw.append(_timed_ms(lambda: connection.execute(query).fetchall()))
            start = time.perf_counter()
            page = await store.list_goals(limit=_PAGE)
            ours.append((time.perf_counter() - start) * 1e3)
    connection.close()
    if len(page) != _PAGE:
        raise RuntimeError(f"a page has {len(page)} goals")
    return median(raw), median(ours)


def _timed_ms(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3
