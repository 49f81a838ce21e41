"""The worker of a program: runs goals in its event loop, and recovers goals of dead processes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.wire.goal_view import GoalView
from perdure.app.workers.background import BackgroundRuns, Run
from perdure.errors import NotFound, Unavailable
from perdure.kernel.loop import RunResult

Resume = Callable[[str, RunOptions], Awaitable[RunResult]]
"""Resumes the goal with an id."""

_MOST_WATCHED = 100
"""Maximum number of watched goals that one poll reads; the next poll continues after them."""


class AppWorker(BackgroundRuns):
    """The goals that a program runs in the background: those that it starts, and those that it recovers."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._poll_task: asyncio.Task[None] | None = None
        self._recovers = False
        self._watched: dict[str, Resume] = {}
        """The unfinished goals that were started here; each is resumed when it can continue."""

    async def start(self, begin: Callable[[RunOptions], Awaitable[RunResult]], resume: Resume) -> Run:
        """Start a new goal, and return as soon as it is durable; `resume` resumes it after a wait.

        Raises: the errors of `begin` before that; Unavailable when the home is being closed.
        """
        self._require_open()
        run = Run("", is_stored=False)
        await self._begin_durably(run, lambda options: begin(replace(options, commits_start=True)))
        self._watch(run.goal_id, resume)
        return run

    def resume(self, goal_id: str, resume: Resume | None = None) -> "asyncio.Task[RunResult]":
        """Resume a goal, and return its task; if the goal already runs here, return the existing task.

        With `resume`, the goal counts as started here.

        Raises: Unavailable when the home is being closed.
        """
        self._require_open()
        if resume is not None:
            self._watch(goal_id, resume)
        known = next((task for task, run in self._running.items() if run.goal_id == goal_id), None)
        if known is not None:
            return known
        resume_goal = self._watched.get(goal_id, self._goals.resume_run)
        return self._begin(
            Run(goal_id, is_unattended=True), lambda options: resume_goal(goal_id, options), lambda _goal: None
        )

    def run_child(self, child: GoalView, resume: Resume, on_left: Callable[[GoalView], None]) -> bool:
        """Run a child of a goal, and resume it whenever it can continue; return whether it runs or will.

        `on_left` is called each time a run of the child ends here. A child whose last run failed is not retried yet.
        """
        if self._is_closing:
            return False
        self._watch(child.id, resume)
        if self._runs(child.id) or self._goals.is_held_here(child.id):
            return True
        if self._is_paused(child):
            return False
        run = Run(child.id, child.summary.last_seq)
        task = self._begin(run, lambda options: resume(child.id, options), lambda _goal: None)
        task.add_done_callback(lambda _task: on_left(child))
        return True

    @property
    def _parks_for_children(self) -> bool:
        """Return whether the number of running goals is limited here, as it is with recovery. See BackgroundRuns."""
        return self._recovers

    def recover(self) -> None:
        """Poll the queue from now on, and resume goals that are due or not owned by a live worker."""
        self._recovers = True
        self._goals.children.poller = self
        self._poll()

    async def close(self, patience_s: float = 10.0) -> None:
        """See BackgroundRuns.close."""
        await super().close(patience_s)
        if self._poll_task is not None:
            await self._poll_task

    def _poll(self) -> None:
        self._poll_task = self._poll_task or asyncio.ensure_future(self.run())

    def _watch(self, goal_id: str, resume: Resume) -> None:
        self._watched[goal_id] = resume
        self._poll()

    async def _claim_goals(self) -> None:
        """See BackgroundRuns._claim_goals; without recovery, only goals that were started here are resumed."""
        if self._recovers:
            await super()._claim_goals()
        for goal_id in list(self._watched)[:_MOST_WATCHED]:
            self._watched[goal_id] = self._watched.pop(goal_id)  # the next poll starts with the goals after it
            if not self._runs(goal_id):
                await self._resume_watched(goal_id)

    async def _resume_watched(self, goal_id: str) -> None:
        """Resume a waiting goal if it can continue; stop watching an ended one.

        A goal that was moved to another queue, for example because a person resumed it, is left to that queue.
        """
        try:
            goal = await self._goals.get(goal_id)
        except NotFound:
            del self._watched[goal_id]
            return
        if goal.is_final:
            del self._watched[goal_id]
            return
        can_continue = await self._goals.can_continue(goal)
        is_ours = goal.summary.queue == self._queue_name and self._can_be_tried(goal)
        if can_continue and is_ours and not self._is_closing:
            resume_goal = self._watched[goal_id]
            run = Run(goal_id, goal.summary.last_seq)
            self._begin(
                run, lambda options: resume_goal(goal_id, replace(options, is_automatic=True)), lambda _goal: None
            )

    @property
    def _free(self) -> int:
        """The number of goals that may be recovered now; goals that the application started itself do not count."""
        recovered = sum(run.polled_seq is not None for run in self._running.values())
        return 0 if self._is_closing else self.most - recovered - self._claims_in_progress

    def _require_open(self) -> None:
        if self._is_closing:
            raise Unavailable("The home is being closed and does not start goals any more.")
