"""Small programs that once failed when they were killed at one certain moment: each is killed at all of them."""

import pytest

from tests.faults.families import Child
from tests.faults.lives import POINTS
from tests.faults.programs import (
    LONG_S,
    Ask,
    Cancel,
    First,
    Forever,
    Group,
    Handover,
    Line,
    Race,
    Signal,
    Sleep,
    Step,
    Timeout,
    Try,
    parts_of,
)
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
    "sleep of asyncio in a recorded deadline": (
        Timeout((Sleep(2.113, is_recorded=False), Try((Forever("event"),), (), (Step(),))), "goal", 7.031),
    ),
    "recorded deadline that is reached while the flow is unwound": (
        Race(
            ((Race(((Ask(),), (Forever("ask"),)), "wait"), Timeout((Step(),), "goal", 5.017)), (Step(takes_s=2.0),)),
            "wait",
        ),
    ),
}
_MOST_HITS = 12
SEEDS = (784206595962, 784206599341, 199084579612, 9990000719)
"""Seeds of a long run whose programs have failed."""


SHRUNK: dict[int, Line] = {
    784206594384: (
        Cancel(
            (
                Group(
                    (
                        (Step(takes_s=2.0), Step(takes_s=2.0, has_id=True), Step("once")),
                        (Sleep(0.217, is_recorded=False), Step("pure", takes_s=2.0)),
                        (Handover(3, "pure"),),
                    )
                ),
                Forever("signal"),
            ),
            (
                First(
                    (
                        (Signal(), Ask(LONG_S)),
                        (Step("pure", fails=1, retry=1, has_id=True), Forever("sleep")),
                    )
                ),
            ),
        ),
    ),
    719387941130: (
        Try(
            (
                Group(
                    (
                        (
                            Sleep(0.217, is_recorded=False),
                            Try((Forever("pure"),), (), (Step("pure", is_sync=True, fails=1, retry=1),)),
                        ),
                        (Try((Forever("once"),), (), (Handover(2, "once"),)),),
                        (Step(takes_s=1.0, fails=9),),
                    )
                ),
            ),
            (),
            (),
        ),
    ),
}
"""Programs that have failed with the kills of a seed, made smaller."""


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("point", sorted(set(POINTS)))
def test_a_program_that_is_killed_at_any_hit_of_a_point_ends_as_if_it_were_not(program: Line, point: str) -> None:
    has_race = any(isinstance(part, Race) for part in parts_of(program))

    async def run() -> None:
        async with _opened(None) as stored:
            for nth in range(1, _MOST_HITS + 1):
                await try_seed(stored, nth * 2 + has_race, program=program, kills=0, killed_at=(point, nth))

    run_virtual(run())


@pytest.mark.parametrize("seed", [*SEEDS, *SHRUNK])
def test_a_seed_that_once_failed_ends_as_if_it_were_not_killed(seed: int) -> None:
    async def run() -> None:
        async with _opened(None) as stored:
            await try_seed(stored, seed, program=SHRUNK.get(seed))

    run_virtual(run())
