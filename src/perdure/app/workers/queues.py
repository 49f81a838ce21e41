"""Polls the queues of goals for those that a worker may claim."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.app.wire.goal_view import GoalView
from perdure.kernel.ports import StateStore

if TYPE_CHECKING:
    from perdure.app.goals.runs import GoalRuns


class GoalQueues:
    """The queues of a home."""

    def __init__(self, goals: "GoalRuns", store: StateStore) -> None:
        self._goals = goals
        self._store = store
        self._others: frozenset[str] = frozenset()
        """Other workers that were alive, and owned goals, when a queue was last polled."""

    async def unheld(self, *, queue: str, limit: int, after: str | None = None) -> Sequence[GoalView]:
        """Return open goals of a queue that no other live worker owns, the oldest first.

        Goals of live workers are left out by the query, so that it ends after `limit` goals however many wait. Which
        workers live is learnt from the goals that are found: at most once more for each that was not known.
        """
        self._goals.require_open()
        self._others = await self._goals.living(self._others)
        while True:
            page = await self._store.unheld(queue=queue, held_by=self._others, limit=limit, after=after)
            goals = await self._goals.views_of(page)
            others = [
                each.summary.worker for each in goals if each.is_running and not self._goals.is_of_this_process(each)
            ]
            if not others:
                return goals
            self._others |= {worker for worker in others if worker is not None}

    async def count_queued(self, *, queue: str) -> int:
        """Return how many open goals of a queue wait for a worker."""
        self._goals.require_open()
        return await self._store.count_queued(queue=queue)
