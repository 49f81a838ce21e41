"""The flow that runs the random program of a seed."""

from typing import Any

from perdure import Goal, flow
from tests.faults.generator import program_of
from tests.faults.outside import outside_of
from tests.faults.programs import Line, in_order

PROGRAMS: dict[int, Line] = {}
"""Programs that replace those of their seeds: a smaller one that fails too."""


@flow
async def random_flow(goal: Goal, seed: int, folder: str | None = None) -> list[Any]:
    """Run the program of a seed."""
    program = PROGRAMS[seed] if seed in PROGRAMS else program_of(seed)[0]
    return await in_order(program, goal, "", outside_of(seed, folder))
