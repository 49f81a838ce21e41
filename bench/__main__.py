"""`make bench`: measure, and print one table; `--write` puts it into docs/benchmarks.md."""

import argparse
import os
import platform
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from bench import store

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--n", type=int, default=1000, help="transactions per measurement")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"also write the table into {PAGE.name}")
    options = parser.parse_args()
    rows = store.measure(options.n, options.repeats)
    table = ["| what | floor | ours | ratio |", "|---|---|---|---|", *[str(row) for row in rows]]
    print("\n".join(table))
    if options.write:
        PAGE.write_text(_page("\n".join(table), options.n, options.repeats), encoding="utf-8")


def _page(table: str, n: int, repeats: int) -> str:
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"""# Benchmarks

Measured on {datetime.now(UTC):%Y-%m-%d} by `make bench`: {n} transactions per measurement, medians of {repeats}
measurements, floor and ours in turn in one run. Python {platform.python_version()}, SQLite {sqlite3.sqlite_version},
{machine}. Times on such a machine are only good as ratios; what is counted is exact.

{table}

- **floor** is the driver alone: one `INSERT` and one `COMMIT` through `sqlite3` or `psycopg`, no threads, no lock.
- **on tmpfs** a flush costs nothing; what is left is our own time. Of it, SQLAlchemy Core takes about half and the
  hand-off to the writer's thread about a quarter. This is the path for relational work, a few transactions at a time;
  the events of goals will be written by the driver alone, in groups.
- **on disk** and **on PostgreSQL** the flush is the physical limit.
- **flushes per transaction** are counted with `strace`, without those of opening, checkpoints and closing.
- **cold start** is a new process: Python alone against `perdure --version`, and against opening a database that is
  current, which imports neither SQLAlchemy nor Alembic.
"""


if __name__ == "__main__":
    main()
