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
"""The timeout of a release; after it, the goal is free when the lease expires."""
_HEARTBEAT_POLL_S = 1.0
"""The interval of reads of the heartbeat of an owner that may be dead."""


class Ownership:
    """Claims goals for the worker of this process; `end_forks` ends processes that steps of a goal have forked."""

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
        """Return the writer for the journal of a goal of this worker."""
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
        """Own a goal inside the block, with its verified history; with `claim`, it is claimed already.

        Processes that steps of a dead owner have forked are ended before any call of the goal is settled or repeated.

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
        """Release a goal when the block raises; if that fails, the goal is free when the lease expires."""
        try:
            yield
        finally:
            if not journal.is_released() and not self._worker.is_abandoned(journal.goal_id):
                await self.release(journal.goal_id, worker, journal.epoch)

    async def _claim(
        self, goal_id: str, worker: Worker, queue: str | None, tell: Tell | None, *, reopen: bool
    ) -> tuple[int, str | None]:
        """Claim a goal, and return the epoch and the id of the worker that owned it before.

        While the owner may be alive, watch its heartbeat, if `tell` is given to report that.

        Raises: Conflict as soon as the owner renews its lease.
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
            await self._worker.ensure_renewed(worker)

    async def release(self, goal_id: str, worker: Worker, epoch: int) -> None:
        """Release a goal; if that fails, the goal is free when the lease expires, or after the next poll."""
        with suppress(PerdureError, TimeoutError):
            async with asyncio.timeout(_RELEASE_S):
                with self._worker.doubting():
                    await self._leases.release(goal_id, worker, epoch)


def _stays(queue: str, wanted: str | None) -> bool:
    """Return whether a goal stays in its queue: goals of an application do, so that the application resumes them."""
    return wanted is None or (queue.startswith("app.") and not wanted.startswith("app."))
