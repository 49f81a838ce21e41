"""A server's worker for the time of a block, and conditions that are waited for with a deadline."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from perdure import Perdure
from perdure.app.goals.new_goal import of_command
from perdure.app.home.system import SystemClock
from perdure.app.wire.goal_view import GoalView
from perdure.app.workers.background import MOST_RUNNING
from perdure.app.workers.server_worker import ServerWorker, WakeCli

_TRIES = 3_000


@asynccontextmanager
async def at_work(p: Perdure, most: int = MOST_RUNNING, wakes: WakeCli | None = None) -> AsyncIterator[ServerWorker]:
    """A server's worker, until it is closed."""
    serving = ServerWorker(p.goals, p.keys, SystemClock(), most=most, wakes=wakes)
    running = asyncio.create_task(serving.run())
    try:
        yield serving
    finally:
        await serving.close()
        await running


async def become(p: Perdure, goal_id: str, status: str) -> GoalView:
    """Wait until a goal has a status and nobody runs it."""
    for _ in range(_TRIES):
        goal = await p.goals.find(goal_id)
        if goal.status == status and not goal.is_running:
            return goal
        await asyncio.sleep(0.01)
    raise AssertionError(f"{goal_id} is {goal.status}")


async def seen_by_server(p: Perdure) -> None:
    """Let a server that works look for goals twice: each goal that it finds in the queue takes a look."""
    for _ in range(2):
        await become(p, (await p.goals.enqueue(of_command("true"))).id, "done")


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    for _ in range(_TRIES):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it was waited for in vain")
