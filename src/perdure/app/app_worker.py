"""The worker of an application: goals in its own event loop, and recovery of what dead processes have left."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from perdure.app.background import BackgroundRuns, Run
from perdure.app.run_options import Manner
from perdure.errors import Unavailable
from perdure.kernel.loop import Ran


class AppWorker(BackgroundRuns):
    """The goals that a program runs in the background: those that it starts, and those that it recovers."""

    _polling: "asyncio.Task[None] | None" = None

    async def start(self, begin: Callable[[Manner], Awaitable[Ran]]) -> Run:
        """Begin a new goal, and return as soon as it is durable.

        Raises: what `begin` raises before that; Unavailable when the home is being closed.
        """
        self._require_open()
        run = Run("", is_stored=False)
        await self._begun(run, lambda manner: begin(replace(manner, commits_start=True)))
        return run

    def resume(self, goal_id: str, begin: Callable[[Manner], Awaitable[Ran]] | None = None) -> "asyncio.Task[Ran]":
        """Resume a goal, and return the task that runs it; one that runs here already is returned.

        Raises: Unavailable when the home is being closed.
        """
        self._require_open()
        known = next((task for task, run in self._running.items() if run.goal_id == goal_id), None)
        if known is not None:
            return known
        go_on = begin or (lambda manner: self._goals.go_on(goal_id, manner))
        return self._begin(Run(goal_id, is_unattended=True), go_on, lambda _goal: None)

    def recover(self) -> None:
        """Poll the queue from now on: resume what no live worker holds, and what is due."""
        self._polling = self._polling or asyncio.ensure_future(self.run())

    async def close(self, patience_s: float = 10.0) -> None:
        """See BackgroundRuns.close."""
        await super().close(patience_s)
        if self._polling is not None:
            await self._polling

    @property
    def _free(self) -> int:
        """How many goals may be recovered now: those that the application has started itself do not count."""
        recovered = sum(run.polled_seq is not None for run in self._running.values())
        return 0 if self._is_closing else self.most - recovered

    def _require_open(self) -> None:
        if self._is_closing:
            raise Unavailable("The home is being closed, and begins no more goals.")
