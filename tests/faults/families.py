"""Parts of random programs that run as goals of their own: children."""

from dataclasses import dataclass
from typing import Any

from perdure import Goal, flow
from tests.faults import programs
from tests.faults.outside import Outside, outside_of
from tests.faults.programs import Line, Part, expected, in_order


@flow
async def child_flow(goal: Goal, program: str, place: str, seed: int, folder: str | None) -> list[Any]:
    """Run a line of a program."""
    return await _run(goal, program, place, outside_of(seed, folder))


@flow(cleanup=True)
async def child_flow_with_cleanup(goal: Goal, program: str, place: str, seed: int, folder: str | None) -> list[Any]:
    """Run a line of a program; its `finally` blocks run when it is cancelled."""
    return await _run(goal, program, place, outside_of(seed, folder))


@dataclass(frozen=True)
class Child(Part):
    """A line that runs as a child: its result is used, its failure is raised, and it ends when it is cancelled."""

    line: Line
    has_cleanup: bool = False
    has_id: bool = False

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        child = child_flow_with_cleanup if self.has_cleanup else child_flow
        options = goal.options(id=f"child at {place}" if self.has_id else None)
        return await options.child(child, repr(self.line), place, outside.seed, outside.folder)

    def expect(self, place: str) -> Any:
        return expected(self.line, f"{place}.k")


async def _run(goal: Goal, program: str, place: str, outside: Outside) -> list[Any]:
    line: Line = eval(program, {**vars(programs), "Child": Child})
    return await in_order(line, goal, f"{place}.k", outside)
