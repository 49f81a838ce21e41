"""Small programs that once failed when they were killed at one certain moment: each is killed at all of them."""

import pytest

from tests.faults.families import Child
from tests.faults.lives import POINTS
from tests.faults.programs import Cancel, Forever, Group, Line, Step, Timeout, Try
from tests.faults.test_random_flows import _opened
from tests.faults.trials import try_seed
from tests.faults.virtual_time import run_virtual

PROGRAMS: dict[str, Line] = {
    "child that a deadline cancels": (Timeout((Child((Forever("sleep"),)),), "asyncio", 7.031),),
    "child with a cleanup that a deadline cancels": (
        Timeout((Child((Try((Forever("ask"),), (), (Step(),)),), has_cleanup=True),), "goal", 7.031),
    ),
    "child whose sibling fails": (
        Try((Group(((Child((Step(), Forever("signal"))),), (Step(), Step(fails=9)))),), (Step(),), ()),
    ),
    "child of a child that is cancelled": (
        Cancel((Child((Child((Forever("idempotent"),)),)),), (Step(takes_s=0.5), Step())),
    ),
}
_MOST_HITS = 12


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("point", sorted(set(POINTS)))
def test_a_program_that_is_killed_at_any_hit_of_a_point_ends_as_if_it_were_not(program: Line, point: str) -> None:
    async def run() -> None:
        async with _opened(None) as stored:
            for nth in range(1, _MOST_HITS + 1):
                await try_seed(stored, nth * 2, program=program, kills=0, killed_at=(point, nth))

    run_virtual(run())
