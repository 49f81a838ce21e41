"""Small programs that once failed when they were killed at one certain moment: each is killed at all of them."""

import pytest

from tests.faults.found_programs import PROGRAMS, SEEDED
from tests.faults.lives import POINTS
from tests.faults.programs import Line, Race, parts_of
from tests.faults.test_random_flows import _opened
from tests.faults.trials import try_seed
from tests.faults.virtual_time import run_virtual

_MOST_HITS = 12


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("point", sorted(set(POINTS)))
def test_a_program_that_is_killed_at_any_hit_of_a_point_ends_as_if_it_were_not(program: Line, point: str) -> None:
    has_race = any(isinstance(part, Race) for part in parts_of(program))

    async def run() -> None:
        async with _opened(None) as stored:
            for nth in range(1, _MOST_HITS + 1):
                await try_seed(stored, nth * 2 + has_race, program=program, kills=0, killed_at=(point, nth))

    run_virtual(run())


@pytest.mark.parametrize("seed", SEEDED)
def test_a_seed_that_once_failed_ends_as_if_it_were_not_killed(seed: int) -> None:
    async def run() -> None:
        async with _opened(None) as stored:
            await try_seed(stored, seed, program=SEEDED[seed])

    run_virtual(run())
