"""Retries failed goals, once for each key: reopens their failed children first, then the goal itself."""

from typing import TYPE_CHECKING

from perdure.app.goals.arguments.run_options import Reopening, RunOptions
from perdure.app.goals.updates.child_retries import ChildRetries
from perdure.app.wire.goal_view import GoalView
from perdure.errors import Conflict, KeyTaken
from perdure.kernel.history.reopening import is_retry_as_given
from perdure.kernel.loop import RunResult
from perdure.kernel.ports import Inbox, StateStore

if TYPE_CHECKING:
    from perdure.app.goals.goals import Goals
    from perdure.app.workers.runner import Runner


class GoalRetries:
    """Retries the goals of a home."""

    def __init__(self, goals: "Goals", store: StateStore, inbox: Inbox, runner: "Runner") -> None:
        self._goals = goals
        self._store = store
        self._inbox = inbox
        self._runner = runner
        self._children = ChildRetries(goals, store, runner)

    async def reopen(self, goal_id: str, options: RunOptions, again: Reopening) -> RunResult:
        """Reopen a failed goal and run it until it ends, waits or is stopped. See Goals.retry.

        A goal whose code is in another script is reopened, but not run.
        """
        goal_id = (await self._goals.get(goal_id)).id
        if await self.has_retried(goal_id, again):
            return await self._continue(goal_id, options)
        await self._reopen_children(goal_id, again)
        try:
            return await self._goals.children.after_run(await self._runner.reopen(goal_id, options, again))
        except Conflict:
            if not await self.has_retried(goal_id, again):
                raise
        return await self._continue(goal_id, options)  # the same call, made twice at once

    async def enqueue(self, goal_id: str, again: Reopening, *, queue: str = "server") -> GoalView:
        """Reopen a failed goal for the workers of a queue; it does not run yet. See Goals.retry."""
        goal_id = (await self._goals.get(goal_id)).id
        if not await self.has_retried(goal_id, again):
            await self._reopen_children(goal_id, again)
            try:
                await self._runner.enqueue_reopened(goal_id, RunOptions(queue=queue), again)
            except Conflict:
                if not await self.has_retried(goal_id, again):
                    raise
        return await self._goals.find(goal_id)

    async def has_retried(self, goal_id: str, again: Reopening) -> bool:
        """Return whether a goal was already retried with the key; False without a key.

        Raises: KeyTaken when the key was used for something else.
        """
        known = None if again.key is None else await self._inbox.posted_as(goal_id, again.key)
        if known is None:
            return False
        events = await self._store.load(goal_id)
        if not is_retry_as_given(
            events, (known.kind, known.payload), reason=again.reason, limits=again.limits, policy=again.policy
        ):
            what = "another retry" if known.kind in ("reopened", "limit") else f"something else: a {known.kind}"
            raise KeyTaken(f"The key {again.key!r} was used for {what}. Use another key.")
        return True

    async def _continue(self, goal_id: str, options: RunOptions) -> RunResult:
        """Resume a retried goal; a goal whose code is in another script is only returned."""
        if await self._goals.needs_its_script(goal_id):
            is_final = (await self._goals.get(goal_id)).is_final
            return await self._goals.run_result(goal_id, "ended" if is_final else "interrupted")
        return await self._goals.resume_run(goal_id, options)

    async def _reopen_children(self, goal_id: str, again: Reopening) -> None:
        """Reopen the failed children that caused the failure of a goal.

        Raises: NotRetried when the goal or a child cannot be retried; Damaged.
        """
        await self._children.reopen_failed(await self._goals.state(goal_id), again)
