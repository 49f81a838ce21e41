"""The goals of a test: a call that waits for the clock, which only the test advances, raises after a timeout."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import NewGoal
from perdure.app.wire.goal_view import GoalResult
from perdure.errors import Unavailable
from perdure.kernel.events import Limits
from perdure.kernel.loop import RunResult
from perdure.tasks import end_tasks

_POLL_S = 0.02
_STANDS_STILL = (
    "p.goals.{name} waits for the clock of this home, which stands still until the test advances it. Start the goal"
    " with `p.goals.start`, or advance the clock while the call waits: `call = asyncio.create_task(p.goals.{name}(…))`,"
    " `await p.clock.advance(…)`, `await call`."
)

T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """The limit of the waits of calls in the home of a test."""

    now_us: Callable[[], int]
    """Returns the time of the clock of the home."""
    is_at_rest: Callable[[], bool]
    """Returns whether nothing runs in the home."""
    seconds: float
    """The maximum real time in which nothing happens."""


class AttendedGoals(Goals):
    """Goals whose `run`, `resume` and `retry` raise when nothing happens and the clock stands still."""

    _patience: Patience
    _starting_ids: set[str]

    def attend(self, patience: Patience) -> None:
        """Set the limit of the waits of calls."""
        self._patience = patience
        self._starting_ids = set()

    def awaited(self) -> set[str]:
        """Return the ids of goals that a call is about to run, and has not claimed yet."""
        return self._starting_ids - self.runs().keys()

    async def begin_once(self, new: NewGoal, options: RunOptions | None = None) -> RunResult:
        """See GoalRuns.begin_once. Raises: Unavailable, too."""
        return await self._attended("run", super().begin_once(new, options))

    async def resume(self, goal_id: str, *, limits: Limits | None = None, model: str | None = None) -> GoalResult[Any]:
        """See Goals.resume. Raises: Unavailable, too."""
        async with self._starting(goal_id) as whole:
            return await self._attended("resume", super().resume(whole, limits=limits, model=model))

    async def retry(self, goal_id: str, **options: Any) -> GoalResult[Any]:
        """See Goals.retry. Raises: Unavailable, too."""
        async with self._starting(goal_id) as whole:
            return await self._attended("retry", super().retry(whole, **options))

    @asynccontextmanager
    async def _starting(self, goal_id: str) -> AsyncIterator[str]:
        """Let the clock wait until a goal runs here, or the block ends; yield its whole id."""
        ids = {goal_id}
        self._starting_ids |= ids
        try:
            whole = (await self.get(goal_id)).id
            self._starting_ids = self._starting_ids - ids | {whole}
            ids.add(whole)
            yield whole
        finally:
            self._starting_ids -= ids

    async def _attended(self, name: str, call: Coroutine[Any, Any, T]) -> T:
        """Wait for a call while something happens, or the clock is advanced.

        Raises: Unavailable after the patience of the home; the errors of the call.
        """
        patience, time = self._patience, asyncio.get_running_loop().time
        task = asyncio.create_task(call)
        since_s, clock_us = time(), patience.now_us()
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_POLL_S)
                self._starting_ids -= self.runs().keys()
                if clock_us != patience.now_us() or not patience.is_at_rest():
                    since_s, clock_us = time(), patience.now_us()
                elif time() - since_s > patience.seconds and not task.done():
                    raise Unavailable(_STANDS_STILL.format(name=name))
            return task.result()
        finally:
            await end_tasks({task})
