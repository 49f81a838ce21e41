"""The floor: what the disk and the driver allow, with no runtime on top.

A step of the floor is one row: the goal's name, a number and about 500 bytes of JSON, which are made inside the
measured time. One goal commits each row by itself; many goals share one writer thread, which takes all that waits,
commits it at once and wakes those who wait.
"""

import asyncio
import json
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench.measure import Steps, scratch
from bench.peers.step import payload

GOALS = 64
STEPS = 50
SIMULATED_FLUSH_S = 0.004
_TABLE = "CREATE TABLE IF NOT EXISTS events (goal {text}, seq {integer}, body {bytes}, PRIMARY KEY (goal, seq))"
_INSERT = "INSERT INTO events VALUES (?, ?, ?)"

Record = tuple[str, int, bytes]
Flush = Callable[[Sequence[Record]], None]


def _record(goal: str, number: int) -> Record:
    return goal, number, json.dumps(payload(number)).encode()


def sqlite_alone(parent: Path | None, n: int) -> Steps:
    """Commit n rows of one goal, each by itself."""
    with scratch(parent) as folder:
        connection = _sqlite(folder)
        each = []
        start = last = time.perf_counter()
        for number in range(n):
            connection.execute(_INSERT, _record("goal", number))
            now = time.perf_counter()
            each.append(now - last)
            last = now
        connection.close()
        return Steps(last - start, each)


def sqlite_grouped(parent: Path | None, flush_s: float = 0.0, steps: int = STEPS) -> Steps:
    """Let 64 goals commit so many rows each through one writer; a flush takes at least so long."""
    with scratch(parent) as folder:
        connection = _sqlite(folder)

        def flush(records: Sequence[Record]) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_INSERT, records)
            if flush_s:
                time.sleep(flush_s)
            connection.execute("COMMIT")

        found = asyncio.run(_many_goals(flush, steps))
        connection.close()
        return found


def postgres_grouped(url: str, steps: int = STEPS) -> Steps:
    """As `sqlite_grouped`, on a server."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS events")
        connection.execute(_TABLE.format(text="text", integer="integer", bytes="bytea").encode())

        def flush(records: Sequence[Record]) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany("INSERT INTO events VALUES (%s, %s, %s)", records)

        return asyncio.run(_many_goals(flush, steps))


def _sqlite(folder: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(folder / "floor.db", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(_TABLE.format(text="TEXT", integer="INTEGER", bytes="BLOB") + " WITHOUT ROWID")
    return connection


async def _many_goals(flush: Flush, steps: int) -> Steps:
    each: list[float] = []

    async def goal(name: str) -> None:
        for number in range(steps):
            start = time.perf_counter()
            await writer.put(_record(name, number))
            each.append(time.perf_counter() - start)

    with _Writer(flush).running() as writer:
        start = time.perf_counter()
        await asyncio.gather(*(goal(f"goal-{number}") for number in range(GOALS)))
        return Steps(time.perf_counter() - start, each)


class _Writer:
    """One thread that commits all that waits, and then wakes all who wait."""

    def __init__(self, flush: Flush) -> None:
        self._flush = flush
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[Record, asyncio.Future[None]] | None] = queue.SimpleQueue()

    @contextmanager
    def running(self) -> Iterator["_Writer"]:
        thread = threading.Thread(target=self._work)
        thread.start()
        try:
            yield self
        finally:
            self._queue.put(None)
            thread.join()

    def put(self, record: Record) -> asyncio.Future[None]:
        done: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((record, done))
        return done

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            waiting = [first]
            while not self._queue.empty() and (item := self._queue.get()) is not None:
                waiting.append(item)
            self._flush([record for record, _ in waiting])
            self._loop.call_soon_threadsafe(_wake, [done for _, done in waiting])


def _wake(waiting: Sequence[asyncio.Future[None]]) -> None:
    for done in waiting:
        done.set_result(None)
