"""The floor: a row and a commit for each step, through the driver alone."""

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

from bench.peers.program import PAGE, WARM, Asked, list_ms, run, since_start_ms, us_each
from bench.peers.step import payload

_TABLE = "CREATE TABLE IF NOT EXISTS events (goal {text}, seq {integer}, body {bytes}, PRIMARY KEY (goal, seq))"


class _Rows:
    """A table of steps."""

    def __init__(self, asked: Asked) -> None:
        if asked.url is None:
            self.connection: Any = sqlite3.connect(Path(asked.folder) / "goals.db", isolation_level=None)
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = FULL")
            table = _TABLE.format(text="TEXT", integer="INTEGER", bytes="BLOB") + " WITHOUT ROWID"
            self._insert = "INSERT INTO events VALUES (?, ?, ?)"
        else:
            import psycopg

            self.connection = psycopg.connect(asked.url, autocommit=True, prepare_threshold=0)
            table = _TABLE.format(text="text", integer="integer", bytes="bytea")
            self._insert = "INSERT INTO events VALUES (%s, %s, %s)"
        self.connection.execute(table)

    def step(self, goal: str, number: int) -> None:
        self.connection.execute(self._insert, (goal, number, json.dumps(payload(number)).encode()))

    def steps(self, goal: str, n: int) -> None:
        for number in range(n):
            self.step(goal, number)


def _steps(asked: Asked) -> float:
    rows = _Rows(asked)
    rows.steps("warm", WARM)
    start = time.perf_counter()
    rows.steps("goal", asked.n)
    return us_each(start, asked.n)


def _many(asked: Asked) -> float:
    from bench import floor

    if asked.url is None:
        return floor.sqlite_grouped(Path(asked.folder).parent, steps=asked.n).per_second
    return floor.postgres_grouped(asked.url, steps=asked.n).per_second


def _prepare(asked: Asked) -> None:
    rows = _Rows(asked)
    rows.connection.execute("BEGIN")
    rows.steps("goal", asked.n)
    rows.connection.execute("COMMIT")


def _resume(asked: Asked) -> float:
    rows = _Rows(asked)
    found = rows.connection.execute("SELECT body FROM events WHERE goal = 'goal' ORDER BY seq").fetchall()
    known = [json.loads(body) for (body,) in found]
    rows.step("goal", len(known))
    return since_start_ms()


def _fill(asked: Asked) -> None:
    rows = _Rows(asked)
    rows.connection.execute("CREATE TABLE goals (goal_no INTEGER PRIMARY KEY, id TEXT, about TEXT)")
    rows.connection.execute("BEGIN")
    goals = ((f"goal-{number}", "x" * 200) for number in range(asked.n))
    rows.connection.executemany("INSERT INTO goals (id, about) VALUES (?, ?)", goals)
    rows.connection.execute("COMMIT")


def _list(asked: Asked) -> float:
    rows = _Rows(asked)
    query = f"SELECT id, about FROM goals ORDER BY goal_no DESC LIMIT {PAGE}"
    return list_ms(lambda: len(rows.connection.execute(query).fetchall()))


def _cold(asked: Asked) -> float:
    _Rows(asked).step(f"cold-{time.time_ns()}", 0)
    return since_start_ms()


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
        "",
    )
