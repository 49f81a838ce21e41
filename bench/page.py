"""The page in the docs that shows where we stand."""

import os
import platform
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import psycopg

from bench import memory
from bench.compared import ALL, PEERS, Ahead, Case, Comparison, comparison_table, who_is_ahead
from bench.table import Counted, Timed, counted_table, timed_table
from perdure import __version__

_BETWEEN = (
    "Between two flushes the loop's thread creates the next events, with their JSON, hash and summary, in about "
    "30 µs each, and the writer waits; the goals of the floor create a row in a few µs."
)
REASONS: dict[str, str] = {
    "64 x 50 steps, store, SQLite on disk": _BETWEEN,
    "64 x 50 steps, store, SQLite, flush of 4 ms": _BETWEEN,
    "50 of 100,000 goals, store": (
        "The query takes a third of it; the rest is the hand-over to a reading thread and back, and fifty summaries."
    ),
    "cold start: perdure goal list --json": (
        "Nearly all of it is imports: asyncio, Typer and our own modules. On a quiet machine it was 319 ms."
    ),
    "first token of a chat, message included, beside the bare call": (
        "The goal with its message is created in 1 ms of processor time; 4 ms more pass until the request: the claim,"
        " the reading of the goal, its policy and its tools, and the commit of the prompt."
    ),
}
"""Why a target is not met, by the line that names it; said only when it is not."""

_STEP = (
    "There, a step is one row without a hash, without an intent before the effect, without a fence of the owner "
    "and without the summary that lists read. A `pure` step of Perdure has no intent either."
)
_MANY = "All goals share one writer and its flushes; less Python per decision of the kernel would be faster."
_RESUME = (
    "A flow runs again from its beginning, and each recorded step is requested, compared and answered. A snapshot"
    " of the state would make reading faster, not running."
)
_BYTES = (
    "A step is two events, intent and outcome, each a row with an id, a time and a hash of 32 bytes; null, "
    "default and derivable fields are not stored. A `pure` step is one event."
)
_FLUSHES = "One commit per step is the cost of durability before the next step; goals that run at once share it."
CHANGES: dict[str, str] = {
    "step of one goal, SQLite on tmpfs": _STEP,
    "step of one goal, SQLite on disk": _STEP,
    "step of one goal, PostgreSQL": _STEP,
    "64 goals x 50 steps, SQLite on disk": _MANY,
    "64 goals x 50 steps, PostgreSQL": _MANY,
    "resume after 1,000 steps": _RESUME,
    "resume after 10,000 steps": _RESUME,
    "list of 50 of 100,000": "One query for the page; a prepared statement on a separate reader would be faster.",
    "cold start": (
        "Most of it is imports: asyncio, then the runner and all of its tools. Importing a tool at its first use would"
        " be faster."
    ),
    "bytes a step, SQLite": _BYTES,
    "bytes a step, PostgreSQL": _BYTES,
    "flushes a step, one goal, SQLite": _FLUSHES,
    "flushes a step, 64 goals, SQLite": _FLUSHES,
}
"""What would change it that a peer is ahead of us, by the case; said only when one is."""


@dataclass(frozen=True)
class Measured:
    """All that one run has found."""

    moment: datetime
    held: Sequence[Counted]
    timed: Sequence[Timed]
    comparison: Comparison
    remembered: memory.Remembered
    n: int
    repeats: int


def page(measured: Measured) -> str:
    """Write the whole page."""
    missed = "\n".join(map(_missed, (row for row in measured.timed if not row.is_met))) or "- none"
    return f"""# Benchmarks

Measured on {measured.moment:%Y-%m-%d} by `make bench PEERS=1`: {measured.n} steps per measurement of one goal,
medians of {measured.repeats} measurements, floor and ours in turn in one run. Perdure {__version__},
Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, psycopg {psycopg.__version__},
{platform.system()} {platform.machine()}, {os.cpu_count()} cores that others use too.
Times on such a machine are only comparable as ratios; counted figures are exact.

## Counted

`make bench BENCH=--check` runs only these counts, and exits with 1 if a figure exceeds its limit.

{counted_table(measured.held)}

- A **flush** is an `fsync` or `fdatasync` of the write-ahead log, without those of opening, closing and checkpoints.
- **64 goals** run 50 steps each at the same time: in the store alone, and as goals of the kernel's loop.
- **bytes on disk** is the growth of the database file after the log was transferred to it; 64 goals append in turn,
  one event per step, or run as flows at once. **payload** is the JSON text of the events: a step of a flow has an
  intent and an outcome, a `pure` step only the outcome. The last column compares it with the result of the step
  alone.
- A **resume** reads, verifies and folds the history, and runs the flow from its beginning through all recorded steps.
  Instructions of Python's bytecode are counted, because their number is the same in every run.
- **chats at once** are conversations of one process with a scripted server of another; each is followed by a client,
  which puts the pieces of the answer together.

## Timed

A line with a target says whether this run met it. No timing fails a build.

{timed_table(measured.timed)}

Targets that were not met in this run:

{missed}

- **floor** is the driver alone: one `INSERT` of a row of about 500 bytes and one `COMMIT` through `sqlite3` or
  `psycopg`, in WAL mode with `synchronous=FULL`. With 64 goals it is one writer thread that takes all waiting rows,
  commits them at once and wakes the waiting tasks. For a cold start it is `python -c pass`, for a list the same
  query.
- An **append** creates and stores one event: its JSON, its hash, the summary of its goal, the check that no other
  worker has appended. A **kernel step** is the work of the loop for a step of a tool that takes no time: two events,
  one commit.
- **on tmpfs** a flush costs nothing, so only our own time remains. **flush of 4 ms** is tmpfs with a wait of 4 ms in
  each commit, of the floor and of Perdure.
- **one transaction** is relational work through SQLAlchemy Core on the writer's thread, not an append of events.
- An **answer over REST** uses one open connection to a server in another process; its floor is a route of FastAPI
  that validates a body and does nothing. The server caches the 256 sessions that were answered last; the line below
  is an answer to a session that it must read first. **Sockets** request their turn once in ten seconds, each at a
  different moment; their floor is the p99 of 800 sockets alone.
- A **turn of a model** is one request to a scripted server on this machine, and its record: the floor is the same
  requests by the bare client, without a goal. The first token of a chat is counted from before its goal is created.
- A **cold start** is a new process with compiled modules; a **resume** is a process that claims the goal, reads and
  folds its events, finds that the goal waits for a person, and releases it.
{memory.section(measured.remembered)}{_beside(measured.comparison)}"""


def _missed(row: Timed) -> str:
    reason = REASONS.get(row.what)
    return f"- {row.shortfall}" + (f". {reason}" if reason else "")


def _ahead(case: Case, each: Sequence[Ahead]) -> str:
    return "".join([f"- {case.name}: ", "; ".join(one.sentence for one in each), f". {CHANGES[case.name]}"])


def _beside(comparison: Comparison) -> str:
    ahead = "\n".join(_ahead(*each) for each in who_is_ahead(comparison)) or "- none"
    others = {who.name for who in ALL} - {peer.name for peer in PEERS if not peer.variant}
    versions = ", ".join(f"{name} {known}" for name, known in comparison.versions.items() if name not in others)
    return f"""
## Beside others

All do the same work, one process at a time, in an order that changes from round to round; the comparison took
{comparison.seconds / 60:.0f} minutes. Each of the others is installed in a separate environment:
{versions}.
A step returns about 500 bytes of JSON at once and is durable before the next step starts. A project that could not be
installed or did not run is marked.

{comparison_table(comparison)}

![The same medians as bars, on logarithmic scales](benchmarks.svg)

By the medians of this run, another project is faster or smaller than our flows in these lines:

{ahead}

- **Perdure, flow** is a Python function under `@flow` that calls `goal.options(effect="idempotent").step(…)`, run by
  `goals.run`. **Perdure, append** stores one event a step through the store alone; compare it with eventsourcing.
- **DBOS** is a workflow that calls steps. **LangGraph** is a graph of one node and `durability="sync"` whose state is
  the newest step; **all kept** has all steps in its state, like a history of messages. **eventsourcing** saves an
  aggregate after each event; it has no runtime that runs, asks or schedules steps, and no list.
- A **resume** is a new process that resumes a goal whose process was killed, until its first new step is durable; a
  **cold start** is the same with a new goal in an existing database. Both, and the **list**, use SQLite on tmpfs. Of
  the 10,000 steps of DBOS, 9,000 are copies of rows.
- **bytes** is the growth of the database per step after logs were transferred to it; **flushes** are all `fsync` and
  `fdatasync` per step, by strace, including checkpoints.
- A project that takes more than 8 s for a run is measured twice, the others three to five times.
"""
