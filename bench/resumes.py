"""What a resume of a long flow costs beside reading its history: in time, and in instructions of Python's bytecode.

Times of a busy machine tell little; the count is the same in every run. What libraries in C do is not counted. Most of
that, JSON and hashes, belongs to the reading, so the counted ratio is higher than that of the times.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

from bench.flows import searching
from bench.measure import scratch
from bench.table import Counted, Target, Timed
from perdure import DatabaseClient, Perdure
from perdure.kernel.calls.toolbox import Toolbox
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.replay import require_unchanged
from perdure.minds.flow.mind import FlowMind

_FEW, _MANY = 100, 300
_LONG = 10_000
_MOST_PER_STEP = 11_000
"""A step took 11,478 before flows had cancellation, children and values by annotation."""
_MOST_PER_RESUME = 2.5
"""Twice is the promise, and is measured in time; most of the reading is JSON and hashes, which are not counted."""


def timed(repeats: int) -> list[Timed]:
    """Time the reading of a long history, and a resume of it, in turn; processor time, because others use it too."""
    reads, resumes = [], []
    with scratch() as home:
        asyncio.run(_write(home, _LONG))
        for _ in range(repeats):
            reads.append(_seconds(_read, home))
            resumes.append(_seconds(_resume, home))
    what = f"resume of a flow of {_LONG:,} recorded steps, beside reading its history"
    return [Timed(what, median(reads) * 1e3, median(resumes) * 1e3, "ms", Target("ratio", "≤", 2))]


def _seconds(work: Callable[[Path], Awaitable[object]], home: Path) -> float:
    start = time.process_time()
    _run(work, home)
    return time.process_time() - start


def measure() -> list[Counted]:
    """Count what a recorded step costs in reading and folding a history, and in running the flow through it too."""
    few, many = (_counts(steps) for steps in (_FEW, _MANY))
    writes, reads, resumes = ((more - less) / (_MANY - _FEW) for less, more in zip(few, many, strict=True))
    return [
        Counted(
            "instructions for one more idempotent step of a flow",
            writes,
            Target("value", "≤", _MOST_PER_STEP),
            "of Python's bytecode, on all threads, from `goal.step` until it is durable",
        ),
        Counted(
            "instructions of a resume, beside reading, verifying and folding the history alone",
            resumes / reads,
            Target("value", "≤", _MOST_PER_RESUME),
            f"{resumes:,.0f} of Python's bytecode for each recorded idempotent step, beside {reads:,.0f}",
        ),
    ]


def _counts(steps: int) -> tuple[int, int, int]:
    """Count writing a history, reading it, and a resume of it; what is done once in a process is done before."""

    async def write(home: Path) -> None:
        await _write(home, steps)

    with scratch() as home:
        asyncio.run(_write(home, 1))
    with scratch() as home:
        written = counted(write, home)
        asyncio.run(_resume(home))
        return written, counted(_read, home), counted(_resume, home)


def counted(work: Callable[[Path], Awaitable[object]], home: Path) -> int:
    """Return how many instructions some work takes, on all threads that it starts."""
    count = 0

    def note(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        return note

    def enter(frame: FrameType, _event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return note

    before = sys.gettrace()
    threading.settrace(enter)
    sys.settrace(enter)
    try:
        _run(work, home)
    finally:
        sys.settrace(before)
        threading.settrace(None)
    return count


def _run(work: Callable[[Path], Awaitable[object]], home: Path) -> None:
    """Run some work, and return nothing: asyncio would write out what it returns."""

    async def main() -> None:
        await work(home)

    asyncio.run(main())


async def _write(home: Path, steps: int) -> None:
    async with Perdure.open(home) as p:
        await p.goals.run(searching, steps)


async def _read(home: Path) -> GoalState:
    async with await DatabaseClient.create(home / "perdure.db") as db:
        store = db.state_store()
        [goal] = await store.list_goals()
        events = await store.load(goal.goal_id)
        require_unchanged(events, goal.goal_id)
        return fold(events)


async def _resume(home: Path) -> None:
    state = await _read(home)
    mind = FlowMind(searching, state.begun.mind.args)
    await mind.prepare(state, Toolbox())
    await mind.close()
