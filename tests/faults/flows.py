"""The flow that runs the random program of a seed, and the world that it acts on."""

from pathlib import Path
from typing import Any

from perdure import Goal, flow
from tests.faults.generator import program_of
from tests.faults.outside import Outside
from tests.faults.programs import Line, in_order

PROGRAMS: dict[int, Line] = {}
"""Programs that replace those of their seeds: a smaller one that fails too."""
OUTSIDES: dict[int, Outside] = {}
"""The world of each seed; one that is kept in a file is found by its folder instead."""


@flow
async def random_flow(goal: Goal, seed: int, folder: str | None = None) -> list[Any]:
    """Run the program of a seed."""
    outside = OUTSIDES[seed] if folder is None else Outside(Path(folder, "effects"))
    program = PROGRAMS[seed] if seed in PROGRAMS else program_of(seed)[0]
    return await in_order(program, goal, "", outside)
