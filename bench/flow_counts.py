"""What flows must cost, counted: commits, flushes, bytes."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson

from bench.floor import GOALS, STEPS
from bench.flows import answering, searching, together
from bench.measure import DISK, scratch
from bench.peers.step import payload
from bench.table import Counted, Target
from bench.traced import commit_flushes, flushes
from perdure import Perdure
from perdure.kernel.events import Effect

_ONE_FLOW = 200
_RESULT = 500
_LIMITS: dict[Effect, float] = {"idempotent": 1.75, "pure": 1.3}


_FEW, _MANY = 60, 300
_MOST_BYTES = 900
"""Of a step; DBOS took 956 when this was set."""


def measure() -> list[Counted]:
    return [*_flushes(), *(_bytes(effect, limit) for effect, limit in _LIMITS.items()), _bytes_per_step()]


def _bytes_per_step() -> Counted:
    """Count what more steps of one flow take, as it is counted of the others."""
    few, many = (_size_of_flow(steps) for steps in (_FEW, _MANY))
    return Counted(
        "bytes on disk for one more idempotent step of a flow",
        (many - few) / (_MANY - _FEW),
        Target("value", "≤", _MOST_BYTES),
        f"intent and outcome, of {len(orjson.dumps(payload(_MANY)))} bytes of answer; {_MANY} steps less {_FEW}",
    )


def _size_of_flow(steps: int) -> int:
    async def main(home: Path) -> None:
        async with Perdure.open(home) as p:
            await p.goals.run(searching, steps)

    with scratch() as home:
        asyncio.run(main(home))
        return (home / "perdure.db").stat().st_size


def _flushes() -> list[Counted]:
    commits: float | None = None
    per_step: float | None = None
    if shutil.which("strace") is not None:
        with scratch(DISK) as folder:
            commits = flushes(folder, "flow", _ONE_FLOW)["commits"]
        with scratch(DISK) as folder:
            per_step = commit_flushes(flushes(folder, "flows", STEPS)) / (GOALS * STEPS)
    one = f"commits for a flow of {_ONE_FLOW} idempotent steps"
    return [
        Counted(one, commits, Target("value", "=", _ONE_FLOW + 1), "commit frames in the log, `goals.run`"),
        Counted(
            f"flushes per step of {GOALS} flows",
            per_step,
            Target("value", "≤", 0.05),
            f"{GOALS * STEPS} idempotent steps, by strace",
        ),
    ]


def _bytes(effect: Effect, limit: float) -> Counted:
    """Run 64 flows at once, and see how much larger the file is than with flows of no steps."""
    empty, full = (_size(steps, effect) for steps in (0, STEPS))
    disk, payload = full.disk - empty.disk, full.payload - empty.payload
    result = GOALS * STEPS * _RESULT
    return Counted(
        f"bytes on disk per byte of payload, {effect} steps of a flow that answer with {_RESULT} bytes",
        disk / payload,
        Target("value", "≤", limit),
        f"{payload / result:.2f} bytes of payload and {disk / result:.2f} on disk for each byte of the answer",
    )


@dataclass(frozen=True)
class _Size:
    disk: int
    payload: int


def _size(steps: int, effect: Effect) -> _Size:
    async def main(home: Path) -> None:
        async with Perdure.open(home) as p:
            await together(partial(p.goals.run, answering, steps, _RESULT, effect), GOALS)

    with scratch() as home:
        asyncio.run(main(home))
        file = home / "perdure.db"
        with closing(sqlite3.connect(file)) as connection:
            [[payload]] = connection.execute("SELECT sum(length(CAST(payload AS BLOB))) FROM events")
        return _Size(file.stat().st_size, payload)
