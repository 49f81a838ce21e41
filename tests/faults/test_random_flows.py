"""Random flows with random kills against an oracle, on every kind of store.

`make torture N=10000` runs 10,000 of them altogether. A failure prints its seed; `FAULTS_SEED=… pytest tests/faults`
runs that one again.
"""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.contracts.conftest import goals_url, in_postgres, in_sqlite, place  # noqa: F401 (fixtures)
from tests.contracts.histories import Stored
from tests.crash.size import torture_size
from tests.faults.generator import program_of
from tests.faults.programs import Line
from tests.faults.shrinking import smallest
from tests.faults.trials import try_seed
from tests.faults.virtual_time import VirtualLoop, run_virtual

IN_SUITE = 500
SUITE_SEED = 1
"""The suite runs the same flows every time, a long run new ones."""
_SHARES = {type(None): 0.6, str: 0.2}
"""Which part of the flows runs in memory and on PostgreSQL; SQLite has the rest."""


def _seeds(place: str | Path | None) -> range:  # noqa: F811 (the fixture of that name)
    """Return the seeds to run on a kind of store."""
    if "FAULTS_SEED" in os.environ:
        return range(int(os.environ["FAULTS_SEED"]), int(os.environ["FAULTS_SEED"]) + 1)
    first = secrets.randbits(40) if "PERDURE_TORTURE" in os.environ else SUITE_SEED
    return range(first, first + round(torture_size(small=IN_SUITE) * _SHARES.get(type(place), 0.2)))


@asynccontextmanager
async def _opened(place: str | Path | None) -> AsyncIterator[Stored]:  # noqa: F811 (the fixture of that name)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    if place is None:
        dead: set[str] = set()
        store = InMemoryStateStore(is_dead=dead.__contains__)
        yield Stored(store, store, dead)
        return
    opening = in_sqlite(place) if isinstance(place, Path) else in_postgres(place)
    with loop.busy():
        stored = await opening.__aenter__()
    try:
        yield stored
    finally:
        with loop.busy():
            await opening.__aexit__(None, None, None)


@pytest.mark.torture
def test_random_flows_that_are_killed_end_as_if_they_were_not(place: str | Path | None) -> None:  # noqa: F811
    seed = deaths = 0

    async def run() -> None:
        nonlocal seed, deaths
        async with _opened(place) as stored:
            for seed in _seeds(place):
                deaths += await try_seed(stored, seed)

    started_s = time.monotonic()
    try:
        run_virtual(run())
    except Exception as error:
        error.add_note(f"The smallest program that was found to fail, too, in memory:\n{_smallest(seed)!r}")
        raise
    assert deaths or "FAULTS_SEED" in os.environ
    print(f"{len(_seeds(place))} flows, {deaths} deaths, {time.monotonic() - started_s:.0f} s")


def _smallest(seed: int) -> Line:
    """Return the smallest program that fails with the kills of a seed."""

    def fails(program: Line) -> bool:
        async def run() -> None:
            async with _opened(None) as stored:
                await try_seed(stored, seed, program=program)

        try:
            run_virtual(run())
        except Exception:  # noqa: BLE001 (whatever fails)
            return True
        return False

    return smallest(program_of(seed)[0], fails)
