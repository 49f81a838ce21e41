"""Random flows with random kills against an oracle, on every kind of store.

`make torture N=10000 TESTS=tests/faults` runs 10,000 of them on each. A failure prints its seed, its program and a
smaller one; `FAULTS_SEED=… pytest tests/faults` runs that seed again.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.contracts.conftest import goals_url, in_postgres, in_sqlite, place  # noqa: F401 (fixtures)
from tests.contracts.histories import Stored
from tests.crash.size import torture_size
from tests.faults.generator import program_of
from tests.faults.programs import Line, NeverEndsError, expected
from tests.faults.shrinking import smallest
from tests.faults.trials import try_seed
from tests.faults.virtual_time import VirtualLoop, run_virtual

IN_SUITE = 500
SUITE_SEED = 1
"""The suite runs the same flows every time, a long run new ones."""
_SHARES = {type(None): 0.6, str: 0.2}
"""Which part of the flows of the suite runs in memory and on PostgreSQL; SQLite has the rest."""
_ALIKE = 30
"""How many letters of two messages have to be the same."""
_MOST_ERRORS = 5
"""A run is given up when so many flows have failed."""
_LONGEST_S = 2_000.0
"""How long, in the time of its event loop, a smaller program may take."""


def _seeds(place: str | Path | None) -> range:  # noqa: F811 (the fixture of that name)
    """Return the seeds to run on a kind of store."""
    if "FAULTS_SEED" in os.environ:
        return range(int(os.environ["FAULTS_SEED"]), int(os.environ["FAULTS_SEED"]) + 1)
    if "PERDURE_TORTURE" in os.environ:
        first = secrets.randbits(40)
        return range(first, first + torture_size(small=IN_SUITE))
    return range(SUITE_SEED, SUITE_SEED + round(IN_SUITE * _SHARES.get(type(place), 0.2)))


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
    run = Run(place)
    errors: list[Exception] = []
    seeds = _seeds(place)
    while run.count < len(seeds) and len(errors) < _MOST_ERRORS:
        try:
            run_virtual(run.try_seeds(seeds[run.count :]))
        except Exception as error:  # noqa: BLE001 (whatever fails)
            error.add_note(
                f"The smallest program that fails alike in memory:\n{_smallest(seeds[run.count - 1], error)!r}"
            )
            errors.append(error)
    print(f"{run.count} flows, {run.deaths} deaths, {len(errors)} failed")
    if errors:
        raise ExceptionGroup("random flows that were killed", errors)
    assert run.deaths or "FAULTS_SEED" in os.environ


@dataclass
class Run:
    """The flows that were run on one kind of store."""

    place: str | Path | None
    count: int = 0
    deaths: int = 0

    async def try_seeds(self, seeds: range) -> None:
        """Run the flows of seeds; the last that was counted is the one that failed."""
        async with _opened(self.place) as stored:
            for seed in seeds:
                self.count += 1
                self.deaths += await try_seed(stored, seed)


def _smallest(seed: int, error: Exception) -> Line:
    """Return the smallest program that fails with the kills of a seed, and in the same way."""

    def fails(program: Line) -> bool:
        async def run() -> None:
            async with _opened(None) as stored, asyncio.timeout(_LONGEST_S):  # what is left may never end
                await try_seed(stored, seed, program=program)

        try:
            if program_of(seed)[1]:
                expected(program)
            run_virtual(run())
        except NeverEndsError:
            return False
        except Exception as other:  # noqa: BLE001 (whatever fails)
            return type(other) is type(error) and str(other)[:_ALIKE] == str(error)[:_ALIKE]
        return False

    return smallest(program_of(seed)[0], fails)
