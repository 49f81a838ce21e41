"""The worker of this process: one identity, one heartbeat and one inbox query for all its goals."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from perdure.app.home.system import WorkerIdentity
from perdure.app.workers.flow_threads import FlowThread
from perdure.errors import Conflict, NotFound, PerdureError, Unavailable
from perdure.kernel.loop import Loop, RunResult
from perdure.kernel.ports import ClaimedGoal, Clock, Inbox, Leases, Owned, Worker

LEASE_S = 30.0
POLL_S = 0.5
"""The interval of the query of the inboxes of all its goals."""
_RETRY_S = 1.0
_RETIRE_S = 2.0
_CLOSE_S = 15.0
"""The time that `close` waits for the release of goals; a command that ignores SIGTERM is killed earlier."""

log = logging.getLogger(__name__)


class RunsEnded(Unavailable):
    """All runs of this process were ended on purpose, and this run with them."""


class LocalWorker:
    """Runs loops, and stops all of them when another worker may own its goals."""

    def __init__(
        self,
        identify: Callable[[], WorkerIdentity],
        inbox: Inbox,
        leases: Leases,
        clock: Clock,
        *,
        lease_s: float = LEASE_S,
    ) -> None:
        self._identify = identify
        self._inbox = inbox
        self._leases = leases
        self._clock = clock
        self._lease_s = lease_s
        self._identity: WorkerIdentity | None = None
        self._held: set[str] = set()
        self._are_runs_ended = False
        self._abandoned: set[str] = set()
        """Goals whose flow blocks its thread after its cancellation: they stay claimed while that code can still run.
        """
        self.is_in_doubt = False
        """Whether this worker may own goals that it does not hold, because a claim or release has failed."""
        self._loops: dict[str, Loop] = {}
        self._heartbeat_task: asyncio.Task[None] | None = None
        self._poll_task: asyncio.Task[None] | None = None
        self._releasing: set[asyncio.Future[None]] = set()
        self._renewers = 0
        self._renewed_s = 0.0
        self._is_closing = False
        self._released = asyncio.Event()
        """Set when a goal is released; `close` waits for it."""

    @property
    def worker(self) -> Worker | None:
        """The worker of this process, if it has claimed a goal."""
        return None if self._identity is None else self._identity.worker

    @property
    def id(self) -> str | None:
        """The id of the worker of this process, if it has claimed a goal."""
        return None if self.worker is None else self.worker.id

    @asynccontextmanager
    async def holding(self, goal_id: str) -> AsyncIterator[Worker]:
        """Hold a goal inside the block, as a worker that is visible to other processes.

        Raises: Owned when this process holds the goal already.
        """
        if goal_id in self._held:
            raise Owned(f"{goal_id} is being worked on by this process already.")
        self._held.add(goal_id)
        try:
            self._identity = self._identity or self._identify()
            worker = self._identity.worker
            if self._heartbeat_task is None:
                await self._renew(worker)
            yield worker
        finally:
            if goal_id not in self._abandoned:
                self._held.discard(goal_id)
            self._released.set()

    async def claim_next(
        self, queues: Collection[str], *, skip: Mapping[str, int], after: str | None
    ) -> ClaimedGoal | None:
        """Claim the next goal of some queues, as a worker that is visible to other processes. See Leases.claim_next.

        Raises: Owned; Unavailable.
        """
        self._identity = self._identity or self._identify()
        worker = self._identity.worker
        await self.ensure_renewed(worker)
        with self.doubting():
            return await self._leases.claim_next(queues, worker, skip=skip, after=after)

    @contextlib.contextmanager
    def doubting(self) -> Iterator[None]:
        """Set `is_in_doubt` if a claim or release in the block fails and this worker may own the goal."""
        try:
            yield
        except (Conflict, NotFound):
            raise
        except BaseException:
            self.is_in_doubt = True
            raise

    async def run(self, worker: Worker, loop: Loop, *, is_resumed: bool, thread: FlowThread | None = None) -> RunResult:
        """Run the loop of a held goal; the loop and its running calls end when the lease was not renewed in time.

        With a thread, on which the loop was created, it runs there; the lease is renewed here, even if that blocks.

        Raises: Conflict when another worker has claimed the goal; Unavailable.
        """
        goal_id = loop.journal.goal_id
        self._loops[goal_id] = loop
        run = loop.run(is_resumed=is_resumed)
        if thread is not None:
            run = thread.run(run, partial(self._release_abandoned, goal_id, worker, loop.journal.epoch))
        async with self.renewing(worker) as beating:
            running = asyncio.create_task(run)
            try:
                await asyncio.wait({running, beating}, return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    return running.result()
            finally:
                try:
                    await _end(running)
                finally:  # also when this task is cancelled again
                    del self._loops[goal_id]
                    if thread is not None and thread.is_abandoned:
                        self._abandoned.add(goal_id)
        if self._are_runs_ended:
            raise RunsEnded(f"{goal_id} was ended with all runs of this process.")
        if self._is_closing:
            raise Unavailable(
                f"{goal_id} was interrupted because the home was closed. Resume it in an open home, or"
                f" by `perdure goal resume {goal_id}`."
            )
        raise Unavailable(
            f"The lease was not renewed for {self._lease_s * 2 / 3:g} s: the database did not answer, or this process"
            f" was suspended. {goal_id} was interrupted; another worker may have claimed it. If not:"
            f" `perdure goal resume {goal_id}`."
        )

    @asynccontextmanager
    async def renewing(self, worker: Worker) -> "AsyncIterator[asyncio.Task[None]]":
        """Renew the lease and query inboxes inside the block; the yielded task ends when the renewal has failed."""
        self._renewers += 1
        if self._heartbeat_task is None:
            self._heartbeat_task = asyncio.create_task(self._beat(worker))
            self._poll_task = asyncio.create_task(self._poll_inboxes())
        try:
            yield self._heartbeat_task
        finally:
            self._renewers -= 1
            if not self._renewers:
                await self._end_chores()

    def is_lease_valid(self) -> bool:
        """Return whether no other worker can own the goals: the lease was renewed within two thirds of its length."""
        return self._clock.boottime_s() - self._renewed_s < self._lease_s * 2 / 3

    async def ensure_renewed(self, worker: Worker) -> None:
        """Renew the lease unless it was renewed within a third of its length; for long work before a loop runs."""
        if self._clock.boottime_s() - self._renewed_s >= self._lease_s / 3:
            await self._renew(worker)

    def is_abandoned(self, goal_id: str) -> bool:
        """Return whether code of a cancelled goal still blocks its thread; such a goal is not released."""
        return goal_id in self._abandoned

    def is_held(self, goal_id: str) -> bool:
        """Return whether this process holds a goal."""
        return goal_id in self._held

    def runs(self) -> Mapping[str, Loop | None]:
        """Return the held goals, each with its loop if that runs."""
        return {goal_id: self._loops.get(goal_id) for goal_id in self._held}

    async def end_runs(self) -> None:
        """End every run as after a failed renewal of the lease; afterwards, this process cannot run goals."""
        self._are_runs_ended = True
        await self._end_chores()

    def check_inbox(self, goal_id: str) -> None:
        """Let the loop of a goal, if it runs here, read its inbox now."""
        if goal_id in self._loops:
            self._loops[goal_id].check_inbox()

    async def read_all_inboxes(self) -> None:
        """Let the loops of all goals with new posts read their inboxes now.

        Raises: Unavailable
        """
        if self._identity is not None:
            for goal_id in await self._inbox.posted(self._identity.worker.id):
                self.check_inbox(goal_id)

    async def close(self) -> None:
        """Interrupt and release the goals that run here, and stop the worker.

        Other workers can claim goals that were not released in time at once. While code of a flow still blocks its
        thread, the lock file stays held: the goal is free when the process ends.
        """
        self._is_closing = True
        await self._end_chores()
        await self._wait_for_release()
        if self._identity is not None and not self._abandoned:
            identity, self._identity = self._identity, None
            try:
                if not self._held:
                    await self._retire(identity.worker)
            finally:
                identity.close()

    async def _wait_for_release(self) -> None:
        """Wait until the callers that run goals have released them: the database is closed next."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                while self._held - self._abandoned:
                    self._released.clear()
                    await self._released.wait()
        if self._held - self._abandoned:
            log.warning(
                "goals were not released when the home was closed: %s", ", ".join(sorted(self._held - self._abandoned))
            )

    async def _retire(self, worker: Worker) -> None:
        """Remove the lease; if that fails, it expires."""
        with contextlib.suppress(PerdureError, TimeoutError):
            async with asyncio.timeout(_RETIRE_S):
                await self._leases.retire(worker)

    def _release_abandoned(self, goal_id: str, worker: Worker, epoch: int) -> None:
        """Release a goal whose flow has ended long after its cancellation."""
        self._abandoned.discard(goal_id)
        self._held.discard(goal_id)
        if self._identity is not None:
            releasing = asyncio.ensure_future(self._release(goal_id, worker, epoch))
            self._releasing.add(releasing)
            releasing.add_done_callback(self._releasing.discard)

    async def _release(self, goal_id: str, worker: Worker, epoch: int) -> None:
        try:
            with self.doubting():
                await self._leases.release(goal_id, worker, epoch)
        except (PerdureError, RuntimeError) as error:  # RuntimeError: the database was closed
            log.warning("%s was not released: %s", goal_id, error)

    async def _end_chores(self) -> None:
        chores = [chore for chore in (self._heartbeat_task, self._poll_task) if chore is not None]
        self._heartbeat_task = self._poll_task = None
        for chore in chores:
            await _end(chore)

    async def _beat(self, worker: Worker) -> None:
        """Renew at each third of the lease; return when two thirds have passed since the last success."""
        pause_s = self._lease_s / 3
        while (left_s := self._renewed_s + self._lease_s * 2 / 3 - self._clock.boottime_s()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._clock.sleep(min(pause_s, left_s))
                    pause_s = min(_RETRY_S, self._lease_s / 10)
                    try:
                        await self._renew(worker)
                        pause_s = self._lease_s / 3
                    except PerdureError as error:
                        log.warning("the lease of %s was not renewed: %s", worker.id, error.detail)

    async def _renew(self, worker: Worker) -> None:
        now_s = self._clock.boottime_s()
        await self._leases.renew(worker, self._lease_s)
        self._renewed_s = now_s

    async def _poll_inboxes(self) -> None:
        """Notify the loops of posts to their goals."""
        while True:
            await self._clock.sleep(POLL_S)
            try:
                await self.read_all_inboxes()
            except PerdureError as error:
                log.warning("polling the inboxes of %s failed: %s", self.id, error.detail)


async def _end(task: "asyncio.Task[Any]") -> None:
    """Cancel a task, wait for its end, and ignore its exception."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()
