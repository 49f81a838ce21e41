"""One relational transaction beside the driver alone; flushes; cold start."""

import asyncio
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg

from perdure import DatabaseClient
from tests.postgres import start_postgres
from tests.rows import new_project, project
from tests.sql import insert

TMPFS = Path("/dev/shm")
_PYFORMAT = "INSERT INTO projects ({names}) VALUES ({values})".format(
    names=", ".join(project("")), values=", ".join(f"%({name})s" for name in project(""))
)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    floor: float
    ours: float
    unit: str

    def __str__(self) -> str:
        ratio = f"{self.ours / self.floor:.2f}"
        return f"| {self.what} | {self._show(self.floor)} | {self._show(self.ours)} | {ratio} |"

    def _show(self, value: float) -> str:
        return f"{value:,.1f} {self.unit}" if self.unit else f"{value:.3f}"


def measure(n: int, repeats: int) -> list[Row]:
    rows = []
    for name, parent in (("on tmpfs", TMPFS), ("on disk", Path(tempfile.gettempdir()))):
        if parent.is_dir():
            floor, ours = _in_turn(partial(_sqlite_floor, parent, n), partial(_sqlite_ours, parent, n), repeats)
            rows.append(Row(f"one transaction, SQLite {name}", floor, ours, "µs"))
    with start_postgres() as server:
        url = server.new_database("bench")
        asyncio.run(_fill(url, 0))
        floor, ours = _in_turn(lambda: _postgres_floor(url, n), lambda: _postgres_ours(url, n), repeats)
        rows.append(Row("one transaction, PostgreSQL", floor, ours, "µs"))
    if shutil.which("strace"):
        rows.append(Row("flushes per transaction, SQLite", 1.0, _flushes(200), ""))
    python, version = _in_turn(lambda: _process("pass"), lambda: _process(_VERSION), repeats * 3)
    rows.append(Row("cold start: perdure --version", python * 1e3, version * 1e3, "ms"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "perdure.db"
        asyncio.run(_fill(str(path), 0))
        python, opening = _in_turn(lambda: _process("pass"), lambda: _process(_OPEN, str(path)), repeats * 3)
    rows.append(Row("cold start: open a current database", python * 1e3, opening * 1e3, "ms"))
    return rows


_VERSION = "import sys; sys.argv = ['perdure', '--version']; from perdure.interfaces.cli import main; main()"
_OPEN = """
import asyncio, sys
from perdure import DatabaseClient
async def main():
    await (await DatabaseClient.create(sys.argv[1])).close()
asyncio.run(main())
"""
_WRITE = """
import asyncio, sys
from bench.store import _fill
asyncio.run(_fill(sys.argv[1], int(sys.argv[2])))
"""


def _in_turn(floor: Callable[[], float], ours: Callable[[], float], repeats: int) -> tuple[float, float]:
    pairs = [(floor(), ours()) for _ in range(repeats)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def _sqlite_floor(parent: Path, n: int) -> float:
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        path = Path(folder) / "perdure.db"
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
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        return asyncio.run(_fill(str(Path(folder) / "perdure.db"), n))


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


def _flushes(n: int) -> float:
    """Count flushes of n transactions, less those of none at all."""
    return (_strace(n) - _strace(0)) / n


def _strace(n: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path, trace = Path(folder) / "perdure.db", Path(folder) / "trace"
        asyncio.run(_fill(str(path), 0))
        subprocess.run(
            [
                "strace",
                "-f",
                "-o",
                str(trace),
                "-e",
                "trace=fsync,fdatasync",
                sys.executable,
                "-c",
                _WRITE,
                str(path),
                str(n),
            ],
            check=True,
            capture_output=True,
        )
        return trace.read_text().count("sync(")


def _process(program: str, *arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start
