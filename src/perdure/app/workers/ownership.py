"""Claims and releases goals: at most one live worker owns a goal, and only the owner writes its history."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from perdure.app.goals.arguments.run_options import Tell
from perdure.app.workers.worker import LocalWorker
from perdure.errors import PerdureError
from perdure.kernel.fold import fold
from perdure.kernel.history.replay import require_unchanged
from perdure.kernel.journal import Journal, JournalDeps
from perdure.kernel.ports import ClaimedGoal, Clock, Ids, Leases, OwnerSilent, StateStore, Worker

_RELEASE_S = 2.0
"""How long a release may take; after that, the end of the lease does it."""
_HEARTBEAT_POLL_S = 1.0
"""How often the heartbeat of an owner that may be dead is read."""


class Ownership:
    """Claims goals for the worker that this process is; `end_forks` ends what steps of a goal have forked."""

    def __init__(
        self,
        store: StateStore,
        leases: Leases,
        clock: Clock,
        ids: Ids,
        worker: LocalWorker,
        end_forks: Callable[[str], Awaitable[None]],
    ) -> None:
        self._store = store
        self._leases = leases
        self._clock = clock
        self._ids = ids
        self._worker = worker
        self._end_forks = end_forks

    def journal_deps(self, worker: Worker, queue: str = "cli") -> JournalDeps:
        """Return what the journal of a goal of this worker writes with."""
        return JournalDeps(self._store, self._clock, self._ids, worker, queue)

    @asynccontextmanager
    async def claimed(  # noqa: PLR0913 (see Leases.claim; and a claim that was made)
        self,
        goal_id: str,
        worker: Worker,
        queue: str | None,
        tell: Tell | None,
        *,
        is_woken: bool,
        reopen: bool = False,
        claim: ClaimedGoal | None = None,
    ) -> AsyncIterator[Journal]:
        """Own a goal for the time of the block, with its history as it was written; `claim` is made already.

        What steps of a dead owner have forked is ended before anything of the goal is settled or repeated.

        Raises: Conflict when another live worker owns it; Damaged when an event was changed; Unavailable.
        """
        if claim is not None:
            epoch, owner = claim.epoch, claim.former
        else:
            epoch, owner = await self._claim(goal_id, worker, None if is_woken else queue, tell, reopen=reopen)
        try:
            if owner is not None and owner != worker.id:
                await self._end_forks(goal_id)
            summary = await self._store.find(goal_id)
            woken_us = summary.due_us if is_woken else None
            events = await self._store.load(goal_id)
            require_unchanged(events, goal_id)
            deps = self.journal_deps(worker, summary.queue)
            journal = Journal(deps, fold(events), epoch, woken_us=woken_us, deaths=summary.deaths)
            is_stored_as_due = summary.due_us is not None and summary.due_us <= summary.updated_us
            journal.is_due_if_left = journal.is_due_if_left or is_stored_as_due
        except BaseException:
            await self.release(goal_id, worker, epoch)
            raise
        async with self.releasing(journal, worker):
            yield journal

    @asynccontextmanager
    async def releasing(self, journal: Journal, worker: Worker) -> AsyncIterator[None]:
        """Release a goal at once when the block ends early; if that fails, the end of the lease does it."""
        try:
            yield
        finally:
            if not journal.has_let_go() and not self._worker.is_left(journal.goal_id):
                await self.release(journal.goal_id, worker, journal.epoch)

    async def _claim(
        self, goal_id: str, worker: Worker, queue: str | None, tell: Tell | None, *, reopen: bool
    ) -> tuple[int, str | None]:
        """Claim a goal, and return the epoch and the id of the worker that owned it before.

        While it is not certain that the owner is dead, watch its heartbeat, if `tell` is there to report that.

        Raises: Conflict as soon as the owner gives a sign of life.
        """
        is_reported = False
        while True:
            before = await self._store.find(goal_id)
            moved_to = None if _stays(before.queue, queue) else queue
            try:
                with self._worker.doubting():
                    return await self._leases.claim(goal_id, worker, moved_to, reopen=reopen), before.worker
            except OwnerSilent as silent:
                if tell is None:
                    raise
                owner, left_s = silent.owner, silent.left_s
            if not is_reported:
                tell(f"waiting up to {math.ceil(left_s)} s for a sign of life of worker {owner.id} on {owner.host}")
                is_reported = True
            await self._clock.sleep(min(left_s, _HEARTBEAT_POLL_S))
            await self._worker.stay(worker)

    async def release(self, goal_id: str, worker: Worker, epoch: int) -> None:
        """Release a goal; if that fails, the end of the lease does it, or the next poll of this worker."""
        with suppress(PerdureError, TimeoutError):
            async with asyncio.timeout(_RELEASE_S):
                with self._worker.doubting():
                    await self._leases.release(goal_id, worker, epoch)


def _stays(queue: str, wanted: str | None) -> bool:
    """Return whether a goal stays in its queue: one of an application does, or the application would not resume it."""
    return wanted is None or (queue.startswith("app.") and not wanted.startswith("app."))
