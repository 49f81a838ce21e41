"""Goals in child processes, through the app: what a child does, and how the parent looks at what is left."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from perdure import Perdure
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import NewGoal
from perdure.app.home.system import SystemClock, is_dead
from perdure.kernel.events import Event, MindSpec
from perdure.kernel.fold import GoalState
from perdure.kernel.loop import Loop, RunResult

Acknowledged = tuple[str, int, bytes]
"""A goal, a seq and a hash, told when the event was durable and not before."""


@asynccontextmanager
async def open_goals(home: Path, url: str, *, lease_s: float = 30.0, ahead_s: float = 0.0) -> AsyncIterator[Goals]:
    """Open the goals of a home, with a lease as short as a test needs it, and a clock ahead of that of others."""
    async with Perdure.open(home, database_url=url) as p:
        leases = p.database.leases(
            boottime_s=lambda: SystemClock().boottime_s() + ahead_s, is_dead=partial(is_dead, home)
        )
        goals = Goals(home, p.database.state_store(), leases, lease_s=lease_s)
        try:
            yield goals
        finally:
            await goals.close()


def telling(pipe: Connection) -> Callable[[Loop], None]:
    """Make a watch that tells of every durable event, as soon as it is and before anything else happens."""

    def tell(events: Sequence[Event], _state: GoalState) -> None:
        for event in events:
            pipe.send((event.goal_id, event.seq, event.hash))

    return lambda loop: loop.journal.listen(tell)


async def run_plan(
    goals: Goals, plan: str, workdir: Path, watch: Callable[[Loop], None] = lambda _loop: None
) -> RunResult:
    """Start a plan."""
    new = NewGoal("killed", MindSpec("plan", plan=plan), workdir)
    return await goals.begin(new, RunOptions(watch=watch))


async def carry_on(home: Path, url: str, plan: str, pipe: Connection) -> None:
    """Resume the newest goal, or start one where there is none that has not ended."""
    async with open_goals(home, url) as goals:
        newest = next(iter(await goals.list(limit=1)), None)
        if newest is None or newest.is_final:
            await run_plan(goals, plan, home, telling(pipe))
        else:
            await goals.resume_run(newest.summary.goal_id, RunOptions(watch=telling(pipe)))


async def carry_on_many(home: Path, url: str, plan: str, at_once: int, pipe: Connection) -> None:
    """Run so many goals at once, which share what they write: those that have not ended first, then new ones."""
    async with open_goals(home, url) as goals:
        begun = [goal.summary.goal_id for goal in await goals.list() if not goal.is_final]
        run_options = RunOptions(watch=telling(pipe))
        resumed = [goals.resume_run(goal_id, run_options) for goal_id in begun[:at_once]]
        new = [run_plan(goals, plan, home, telling(pipe)) for _ in range(at_once - len(resumed))]
        await asyncio.gather(*resumed, *new)


def rest_of(pipe: Connection) -> Iterator[Any]:
    """Read what was told before the end of a child; what it was killed in the middle of is no message."""
    try:
        while True:
            yield pipe.recv()
    except (EOFError, OSError):
        pipe.close()


async def settle(home: Path, url: str, pipe: Connection) -> None:
    """Resume the newest goal and tell how that went: the outcome, its status, and the calls that nobody knows of."""
    async with open_goals(home, url) as goals:
        (newest,) = await goals.list(limit=1)
        ran = await goals.resume_run(newest.summary.goal_id)
        unknown = [call_id for call_id, call in ran.state.open_calls.items() if call.unknown is not None]
        pipe.send((ran.outcome, ran.state.status, unknown))


def counted(folder: Path, step: str) -> int:
    """Count how often a step had its effect: a line in a file of its name each time."""
    path = folder / step
    return len(path.read_text().splitlines()) if path.exists() else 0


def is_running(pid: int) -> bool:
    """Whether a process lives, and is not merely unburied."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
