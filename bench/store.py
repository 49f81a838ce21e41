"""One relational transaction beside the driver alone."""

import asyncio
import sqlite3
import time
from functools import partial
from pathlib import Path

import psycopg

from bench.measure import DISK, TMPFS, medians, scratch
from bench.table import Timed
from perdure import DatabaseClient
from tests.postgres import start_postgres
from tests.rows import new_project, project
from tests.sql import insert

_PYFORMAT = "INSERT INTO projects ({names}) VALUES ({values})".format(
    names=", ".join(project("")), values=", ".join(f"%({name})s" for name in project(""))
)


def measure(n: int, repeats: int) -> list[Timed]:
    rows = []
    for name, parent in (("on tmpfs", TMPFS), ("on disk", DISK)):
        if parent.is_dir():
            floor, ours = medians(partial(_sqlite_floor, parent, n), partial(_sqlite_ours, parent, n), repeats=repeats)
            rows.append(Timed(f"one transaction, SQLite {name}", floor, ours, "µs"))
    with start_postgres() as server:
        url = server.new_database("bench")
        asyncio.run(_fill(url, 0))
        floor, ours = medians(partial(_postgres_floor, url, n), partial(_postgres_ours, url, n), repeats=repeats)
        rows.append(Timed("one transaction, PostgreSQL", floor, ours, "µs"))
    return rows


def _sqlite_floor(parent: Path, n: int) -> float:
    with scratch(parent) as folder:
        path = folder / "perdure.db"
        asyncio.run(_fill(str(path), 0))
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        statement = insert("projects", project(""))
        start = time.perf_counter()
        for i in range(n):
            connection.execute(statement, project(f"floor-{i}"))
        spent = time.perf_counter() - start
        connection.close()
        return spent / n * 1e6


def _sqlite_ours(parent: Path, n: int) -> float:
    with scratch(parent) as folder:
        return asyncio.run(_fill(str(folder / "perdure.db"), n))


def _postgres_floor(url: str, n: int) -> float:
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        connection.execute("DELETE FROM projects")
        start = time.perf_counter()
        for i in range(n):
            connection.execute(_PYFORMAT.encode(), project(f"floor-{i}"))
        return (time.perf_counter() - start) / n * 1e6


def _postgres_ours(url: str, n: int) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM projects")
    return asyncio.run(_fill(url, n))


async def _fill(url: str, n: int) -> float:
    """Write n projects, one transaction each, and return the microseconds that one took."""
    async with await DatabaseClient.create(url) as db:
        await db.transaction(new_project("warm"))
        await db.transaction(lambda tx: tx.execute("DELETE FROM projects"))
        start = time.perf_counter()
        for i in range(n):
            await db.transaction(new_project(f"ours-{i}"))
        return (time.perf_counter() - start) / max(n, 1) * 1e6
