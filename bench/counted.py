"""What can be counted exactly, and must hold: commits, flushes, bytes, statements, query plans."""

import asyncio
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.floor import GOALS, STEPS
from bench.histories import WAITS, long_goal, many_goals
from bench.measure import DISK, perdure, scratch
from bench.ours import Written
from bench.table import Counted, Target
from bench.traced import commit_flushes, flushed_files, flushes, statements, straced
from perdure import DatabaseClient
from perdure.kernel.events import Message

_SHORT_PLAN, _LONG_PLAN = 5, 15
_ONE_GOAL = 50


def measure() -> list[Counted]:
    return [*_one_goal(), _by_program(), *_many_goals(), *_bytes(), *_resume(), *_listing()]


def _one_goal() -> list[Counted]:
    wanted = Target("value", "=", _ONE_GOAL + 1)
    commits: float | None = None
    flushed: float | None = None
    if _can_trace():
        with scratch(DISK) as folder:
            found = flushes(folder, "goal", _ONE_GOAL)
        commits, flushed = found["commits"], commit_flushes(found)
    return [
        Counted(f"commits for {_ONE_GOAL} steps of one goal", commits, wanted, "commit frames in the log"),
        Counted(f"flushes for {_ONE_GOAL} steps of one goal", flushed, wanted, "fsync and fdatasync, by strace"),
    ]


def _by_program() -> Counted:
    """Count what more steps cost in the real program; opening, its leases and closing are the same for both."""
    more = _LONG_PLAN - _SHORT_PLAN
    found = None
    if _can_trace():
        found = (_plan_flushes(_LONG_PLAN) - _plan_flushes(_SHORT_PLAN)) / more
    what = "flushes for one more step, `perdure run --plan`"
    return Counted(what, found, Target("value", "=", 1), f"{_LONG_PLAN} steps less {_SHORT_PLAN}, by strace")


def _plan_flushes(steps: int) -> int:
    with scratch(DISK) as home:
        plan = home / "plan.yaml"
        lines = ["goal: counted", "steps:"]
        for number in range(steps):
            needs = f", needs: [s{number - 1}]" if number else ""
            lines.append(f"  - {{id: s{number}, exec: ['true']{needs}}}")
        plan.write_text("\n".join(lines))
        subprocess.run([*perdure(), "goal", "list", "--home", str(home)], check=True, capture_output=True)
        command = straced(home / "trace", [*perdure(), "run", "--plan", str(plan), "--home", str(home)])
        subprocess.run(command, check=True, capture_output=True)
        return flushed_files(home / "trace").count("perdure.db-wal")


def _many_goals() -> list[Counted]:
    steps = GOALS * STEPS
    rows = []
    for what, name in (("appends", "store"), ("goals", "kernel")):
        found = None
        if _can_trace():
            with scratch(DISK) as folder:
                found = commit_flushes(flushes(folder, what, STEPS)) / steps
        line = f"flushes per step of {GOALS} goals, {name}"
        rows.append(Counted(line, found, Target("value", "≤", 0.05), f"{steps} steps, by strace"))
    return rows


def _bytes() -> list[Counted]:
    rows = []
    for size, limit in ((500, 1.75), (1500, 1.5)):
        found = _bytes_per_step(size) / size
        rows.append(
            Counted(f"bytes on disk per byte of payload, {size:,} bytes a step", found, Target("value", "≤", limit))
        )
    return rows


def _bytes_per_step(size: int) -> float:
    """Let 64 goals take turns to append events of exactly so many bytes, and see how much the file has grown."""
    with scratch() as folder:
        path = folder / "perdure.db"
        asyncio.run(_append_in_turn(path, size, 0))
        before = path.stat().st_size
        asyncio.run(_append_in_turn(path, size, STEPS))
        return (path.stat().st_size - before) / (GOALS * STEPS)


async def _append_in_turn(path: Path, size: int, steps: int) -> None:
    text = "x" * (size - len('{"kind":"message","text":""}'))
    async with await DatabaseClient.create(path) as db:
        store = db.state_store()
        goals = [await Written.begin(store, f"goal-{steps}-{number}") for number in range(GOALS)]
        for _ in range(steps):
            await asyncio.gather(*(goal.append(goal.sealed(Message(text))) for goal in goals))


def _resume() -> list[Counted]:
    counts, reads, plans = [], [], []
    for events in (100, 1000):
        with scratch() as home:
            goal_id = long_goal(home, events)
            asked = statements(home, "run", "--resume", goal_id, "--json", exit_code=WAITS)
            counts.append(len(asked))
            reading = [each for each in asked if re.search(r"\bFROM events\b", each)]
            reads.append(len(reading))
            plans += _bad_steps(home / "perdure.db", reading, "events")
    none = Target("value", "=", 0)
    return [
        Counted(
            "statements that a resume of 1,000 events needs more than one of 100",
            counts[1] - counts[0],
            none,
            f"{counts[1]} statements, `perdure run --resume`",
        ),
        Counted("reads of the events in a resume", max(reads), Target("value", "=", 1), "statements on the table"),
        Counted("of these, scans and sorts", len(plans), none, "; ".join(plans) or "one range of one index"),
    ]


def _listing() -> list[Counted]:
    with scratch() as home:
        many_goals(home / "perdure.db", 1000)
        asked = statements(home, "goal", "list", "--json")
        listing = [each for each in asked if re.search(r"\bFROM goals\b", each)]
        plans = _bad_steps(home / "perdure.db", listing, "goals")
    return [
        Counted("statements of a listing", len(listing), Target("value", "=", 1), "on goals, `perdure goal list`"),
        Counted(
            "scans and sorts of a listing",
            len(plans),
            Target("value", "=", 0),
            "; ".join(plans) or "one range of one index",
        ),
    ]


def _bad_steps(path: Path, asked: Sequence[str], table: str) -> list[str]:
    """Return where the plans of statements read a whole table, or sort."""
    connection = sqlite3.connect(path)
    plan = [str(row[3]) for each in asked for row in connection.execute(f"EXPLAIN QUERY PLAN {each}")]
    connection.close()
    return [step for step in plan if step.startswith(f"SCAN {table}") or "TEMP B-TREE" in step]


def _can_trace() -> bool:
    return shutil.which("strace") is not None
