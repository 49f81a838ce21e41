"""64 goals at once, beside the floor whose goals share each flush."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from time import sleep

import psycopg

from bench import floor
from bench.measure import DISK, Steps, in_turn, scratch
from bench.ours import run_goal, run_together, written_together
from bench.table import Target, Timed
from perdure import DatabaseClient, failpoints
from perdure.kernel.ports import GoalStore
from tests.postgres import PostgresServer, start_postgres

FLUSH_POINTS = ("store.append.before", "store.commit.before")
"""Reached once for each commit, behind the statements; the first that there is stands for a slow flush."""

Work = Callable[[GoalStore], Awaitable[Steps]]
_LOAD = f"{floor.GOALS} x {floor.STEPS}"


def measure(repeats: int) -> list[Timed]:
    rows = _rows("SQLite on disk", 0.5, repeats, partial(floor.sqlite_grouped, DISK), partial(_sqlite, DISK))
    slow = _rows(
        "SQLite, flush of 4 ms",
        0.75,
        repeats,
        partial(floor.sqlite_grouped, None, floor.SIMULATED_FLUSH_S),
        _slow_sqlite,
    )
    with start_postgres() as server:
        floor_url = server.new_database("floor")
        ours = _Postgres(server)
        far = _rows("PostgreSQL", 0.35, repeats, partial(floor.postgres_grouped, floor_url), ours)
    return rows + slow + far


def _rows(
    where: str, share: float, repeats: int, raw: Callable[[], Steps], ours: Callable[[Work], Steps]
) -> list[Timed]:
    ways = (raw, partial(ours, written_together), partial(ours, run_together))
    below, store, kernel = in_turn(*ways, repeats=repeats)

    def row(what: str, found: list[Steps], of: Callable[[Steps], float], unit: str, target: Target | None) -> Timed:
        return Timed(f"{what}, {where}", median(map(of, below)), median(map(of, found)), unit, target)

    return [
        row(f"{_LOAD} steps, store", store, lambda it: it.per_second, "/s", Target("ratio", "≥", share)),
        row(f"{_LOAD} steps, store: p99", store, lambda it: it.p99_ms, "ms", Target("ratio", "≤", 2)),
        row(f"{_LOAD} steps, kernel", kernel, lambda it: it.per_second, "/s", None),
        row(f"{_LOAD} steps, kernel: p99", kernel, lambda it: it.p99_ms, "ms", None),
    ]


def _sqlite(parent: Path | None, work: Work) -> Steps:
    with scratch(parent) as folder:
        return _in_new_database(str(folder / "perdure.db"), work)


def _slow_sqlite(work: Work) -> Steps:
    with scratch() as folder:
        return _in_new_database(str(folder / "perdure.db"), work, floor.SIMULATED_FLUSH_S)


class _Postgres:
    """A server with a new database for each measurement."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._numbers = count()

    def __call__(self, work: Work) -> Steps:
        name = f"ours_{next(self._numbers)}"
        try:
            return _in_new_database(self._server.new_database(name), work)
        finally:
            with psycopg.connect(self._server.url(), autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _in_new_database(url: str, work: Work, flush_s: float = 0.0) -> Steps:
    async def main() -> Steps:
        async with await DatabaseClient.create(url) as db:
            store = db.state_store()
            await run_goal(store, "warm", 1)  # what is imported and opened by the first write is not measured
            with _slow_flush(flush_s):
                return await work(store)

    return asyncio.run(main())


@contextmanager
def _slow_flush(seconds: float) -> Iterator[None]:
    if not seconds:
        yield
        return
    point = next(point for point in FLUSH_POINTS if point in failpoints.POINTS)
    with failpoints.armed(point, partial(sleep, seconds)):
        yield
