"""The queues of a home: the next goal to claim, and the number of waiting goals."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.wire.goal_view import GoalView
from perdure.kernel.events import Limits
from perdure.kernel.loop import RunResult
from perdure.kernel.ports import NOTHING, ClaimedGoal, GoalDirectory, GoalFilter, Leases

if TYPE_CHECKING:
    from perdure.app.goals.runs import GoalRuns
    from perdure.app.workers.runner import Runner


class GoalQueues:
    """The queues of a home."""

    def __init__(self, goals: "GoalRuns", directory: GoalDirectory, leases: Leases, runner: "Runner") -> None:
        self._goals = goals
        self._directory = directory
        self._leases = leases
        self._runner = runner

    async def claim_next(
        self, queue: str, *, skip: Mapping[str, int] = NOTHING, after: str | None = None
    ) -> ClaimedGoal | None:
        """Claim the next goal of a queue for this process, if there is one; an empty queue causes no write.

        `skip` has goals that are left alone at a seq, and `after` the goal behind which open goals are claimed.

        Raises: Owned when another worker was first; Unavailable.
        """
        if not await self.has_next(queue, skip=skip, after=after):
            return None
        return await self._runner.claim_next([queue], skip=skip, after=after)

    async def has_next(self, queue: str, *, skip: Mapping[str, int] = NOTHING, after: str | None = None) -> bool:
        """Return whether there is a goal to claim. See `claim_next`."""
        self._goals.require_open()
        worker = self._runner.process.worker or self._goals.observer()
        return await self._leases.has_next([queue], worker, skip=skip, after=after)

    async def run(self, claimed: ClaimedGoal, options: RunOptions) -> RunResult:
        """Run a claimed goal; it is released in any case.

        Raises: as Goals.resume_run.
        """
        try:
            result = await self._runner.resume_run(claimed.goal.goal_id, replace(options, claim=claimed), Limits())
        except BaseException:
            if not self._goals.is_held_here(claimed.goal.goal_id):  # otherwise its run releases it at its end
                await self.release(claimed)
            raise
        return await self._goals.children.after_run(result)

    async def release(self, claimed: ClaimedGoal) -> None:
        """Release a claimed goal without running it."""
        await self._runner.release_claimed(claimed)

    async def unsure(self, queue: str) -> Sequence[GoalView]:
        """Return the goals of a queue that this process owns and does not hold, because a claim or release has failed.

        The store is only read if a claim or release has failed since the last empty result.
        """
        if not self._runner.process.is_in_doubt:
            return ()
        self._runner.process.is_in_doubt = False
        is_over = False
        try:
            owned = GoalFilter(status=("open", "waiting"), queue=queue, worker=self._runner.process.id)
            found = [goal for goal in await self._goals.matching(owned) if not self._goals.is_held_here(goal.id)]
            is_over = not found
        finally:
            self._runner.process.is_in_doubt |= not is_over
        return found

    async def count_queued(self, *, queue: str) -> int:
        """Return the number of open goals of a queue that wait for a worker."""
        self._goals.require_open()
        return await self._directory.count_queued(queue=queue)
