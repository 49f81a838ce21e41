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
    "Between two flushes the loop's thread makes the next events, with their JSON, hash and summary, in about 30 µs"
    " each, and the writer waits; the floor's goals make a row in a few."
)
REASONS: dict[str, str] = {
    "64 x 50 steps, store, SQLite on disk": _BETWEEN,
    "64 x 50 steps, store, SQLite, flush of 4 ms": _BETWEEN,
    "50 of 100,000 goals, store": (
        "The query takes a third of it; the rest is the way to a reading thread and back, and fifty summaries."
    ),
    "cold start: perdure goal list --json": (
        "Nearly all of it is imports: asyncio, Typer and our own modules. On a quiet machine it was 319 ms."
    ),
}
"""Why a target is not met, by the line that names it; said only when it is not."""

_STEP = (
    "There, a step is one row, without a hash, an intent before the effect, an owner's fence or the summary that lists"
    " are made of. A `pure` step has no intent of its own."
)
_MANY = "All goals share one writer and its flushes; less Python for each decision of the kernel would be the gain."
_RESUME = (
    "A flow runs again from its beginning, and each recorded step is asked for, compared and answered; a snapshot of"
    " the fold would shorten the reading, not the running."
)
_BYTES = (
    "A step is two events, intent and outcome, each a row with an id, a time and a hash of 32 bytes; what is null, a"
    " default or follows from the id of the call is not written. A `pure` step is one event."
)
_FLUSHES = "One commit a step is what being durable before the next step costs; goals that run at once share it."
CHANGES: dict[str, str] = {
    "step of one goal, SQLite on tmpfs": _STEP,
    "step of one goal, SQLite on disk": _STEP,
    "step of one goal, PostgreSQL": _STEP,
    "64 goals x 50 steps, SQLite on disk": _MANY,
    "64 goals x 50 steps, PostgreSQL": _MANY,
    "resume after 1,000 steps": _RESUME,
    "resume after 10,000 steps": _RESUME,
    "list of 50 of 100,000": "One query for the page; a prepared statement on a reader of its own would be the gain.",
    "cold start": (
        "Imports are most of it: asyncio, then the runner and all of its tools. Importing a tool when a goal first uses"
        " it would save some."
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
{platform.system()} {platform.machine()}, {os.cpu_count()} cores that others use too. Times on such a machine are only
good as ratios; what is counted is exact.

## Counted

`make bench BENCH=--check` counts these alone, and exits 1 when one does not hold.

{counted_table(measured.held)}

- A **flush** is an `fsync` or `fdatasync` of the write-ahead log, without those of opening, closing and checkpoints.
- **64 goals** have 50 steps each, all at once: the store alone, and goals that the kernel's loop runs.
- **bytes on disk** is what the file has grown by once the log is back in it; 64 goals append in turn, one event a step,
  or run as flows at once. **payload** is the JSON text of the events: a step of a flow has an intent and an outcome,
  a `pure` one only the outcome, and the last column tells what that is beside the answer of the step alone.
- A **resume** reads, verifies and folds the history, and runs the flow from its beginning through all that is recorded.
  Instructions of Python's bytecode are counted, because their number is the same in every run.

## Timed

A line with a target says whether it was met in this run; none of them fails a build.

{timed_table(measured.timed)}

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
- An **answer over REST** goes over one connection that is kept, to a server in a process of its own; its floor is a
  route of FastAPI that checks a body and does nothing. The server holds the 256 sessions that were answered last; the
  line below is an answer to one that it has to read first. **Sockets** ask for their turn once in ten seconds, each at
  a moment of its own; their floor is the p99 of 800 of them alone.
- A **cold start** is a new process whose modules are compiled already; a **resume** is one that takes the goal, reads
  and folds its events, finds that it waits for a person, and gives it back.
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

The same work for everyone, one process each time, in turn, whoever begins changing from round to round; it took
{comparison.seconds / 60:.0f} minutes. Each of the others is installed in an environment of its own:
{versions}.
A step answers at once with about 500 bytes of JSON and is durable before the next begins. What could not be
installed or did not run says so.

{comparison_table(comparison)}

![The same medians as bars, on logarithmic scales](benchmarks.svg)

A peer is ahead of our flows, by the medians of this run, in these lines:

{ahead}

- **Perdure, flow** is a Python function under `@flow` that calls `goal.options(effect="idempotent").step(…)`, run by
  `goals.run`. **Perdure, append** stores one event a step through the store alone; compare it with eventsourcing.
- **DBOS** is a workflow that calls steps. **LangGraph** is a graph of one node and `durability="sync"` whose state is
  the newest step; **all kept** has all steps in its state, as a history of messages does. **eventsourcing** saves an
  aggregate after each event; it has no runtime, so nothing is run again, asked or scheduled, and no list.
- A **resume** is a new process that goes on with a goal whose process was killed, until its first new step is durable;
  a **cold start** the same with a new goal, in a database that is there already. Both, and the **list**, are on SQLite
  on tmpfs. Of the 10,000 steps of DBOS, 9,000 are copies of rows.
- **bytes** is what the database has grown by for each step once logs are back in it; **flushes** are all `fsync` and
  `fdatasync` for each step, by strace, checkpoints included.
- Whoever takes more than 8 s for a run is measured twice; the others three to five times.
"""
