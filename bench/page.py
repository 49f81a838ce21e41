"""The page in the docs that shows where we stand."""

import os
import platform
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

import psycopg

from bench.beside import Peer, peer_table
from bench.table import Counted, Timed, counted_table, timed_table
from perdure import __version__

REASONS: dict[str, str] = {}
"""Why a target is not met, by the line that names it; said only when it is not."""


def page(
    held: Sequence[Counted], timed: Sequence[Timed], beside: Sequence[Peer] | None, *, n: int, repeats: int
) -> str:
    """Write the whole page."""
    command = "make bench BENCH='--peers --write'" if beside is not None else "make bench BENCH=--write"
    missed = "\n".join(map(_missed, (row for row in timed if not row.is_met))) or "- none"
    return f"""# Benchmarks

Measured on {datetime.now(UTC):%Y-%m-%d} by `{command}`: {n} steps per measurement of one goal, medians of {repeats}
measurements, floor and ours in turn in one run. Perdure {__version__}, Python {platform.python_version()},
SQLite {sqlite3.sqlite_version}, psycopg {psycopg.__version__}, {platform.system()} {platform.machine()},
{os.cpu_count()} cores that others use too. Times on such a machine are only good as ratios; what is counted is exact.

## Counted

`make bench BENCH=--check` counts these alone, and exits 1 when one does not hold.

{counted_table(held)}

- A **flush** is an `fsync` or `fdatasync` of the write-ahead log, without those of opening, closing and checkpoints.
- **64 goals** have 50 steps each, all at once: the store alone, and goals that the kernel's loop runs.
- **bytes on disk** is what the file has grown by once the log is back in it; 64 goals append in turn, one event a step.

## Timed

A line with a target says whether it was met in this run; none of them fails a build.

{timed_table(timed)}

Targets that were not met in this run:

{missed}

- **floor** is the driver alone: one `INSERT` of a row of about 500 bytes and one `COMMIT` through `sqlite3` or
  `psycopg`, in WAL mode with `synchronous=FULL`. With 64 goals it is one writer thread that takes all that waits,
  commits it at once and wakes those who wait. For a cold start it is `python -c pass`, for a list the same query.
- An **append** makes and stores one event: its JSON, its hash, the summary of its goal, the check that nobody else has
  written. A **kernel step** is all that the loop does for a step of a tool that takes no time: two events, one commit.
- **on tmpfs** a flush costs nothing; what is left is our own time. **flush of 4 ms** is tmpfs too, where each commit
  waits for 4 ms, the floor's and ours alike.
- **one transaction** is relational work through SQLAlchemy Core on the writer's thread, not the path of events.
- A **cold start** is a new process whose modules are compiled already; a **resume** is one that takes the goal, reads
  and folds its events, finds that it waits for a person, and gives it back.
{_beside(beside)}"""


def _missed(row: Timed) -> str:
    reason = REASONS.get(row.what)
    return f"- {row.shortfall}" + (f". {reason}" if reason else "")


def _beside(beside: Sequence[Peer] | None) -> str:
    if beside is None:
        return ""
    return f"""
## Beside others

The same step, about 500 bytes of JSON, one after the other, each durable before the next, on SQLite on tmpfs: what is
compared is the software, not the disk. Each runs in an environment of its own, in turn with the floor and ours.

{peer_table(beside)}

- **eventsourcing** stores one event of an aggregate; it has no runtime. Compare it with our append.
- **LangGraph** runs a graph of one node with its SQLite checkpointer and `durability="sync"`; **DBOS** runs a workflow
  of steps. Compare them with our kernel step.
"""
