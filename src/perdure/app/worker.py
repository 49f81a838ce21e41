"""The worker that this process is: one identity, one heartbeat, one look into inboxes, however many goals it runs."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from perdure.app.system import WorkerIdentity
from perdure.errors import Conflict, PerdureError, Unavailable
from perdure.kernel.loop import Loop, Ran
from perdure.kernel.ports import Clock, Leases, StateStore, Worker

LEASE_S = 30.0
LOOK_S = 0.5
"""How often the inboxes of all its goals are looked at, by one query."""
_RETRY_S = 1.0
_RETIRE_S = 2.0

log = logging.getLogger(__name__)


class LocalWorker:
    """Runs loops, and stops them all when it can no longer be sure that its goals are its own."""

    def __init__(
        self,
        identify: Callable[[], WorkerIdentity],
        store: StateStore,
        leases: Leases,
        clock: Clock,
        *,
        lease_s: float = LEASE_S,
    ) -> None:
        self._identify = identify
        self._store = store
        self._leases = leases
        self._clock = clock
        self._lease_s = lease_s
        self._identity: WorkerIdentity | None = None
        self._held: set[str] = set()
        self._loops: dict[str, Loop] = {}
        self._beating: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._renewed_s = 0.0

    @asynccontextmanager
    async def holding(self, goal_id: str) -> AsyncIterator[Worker]:
        """Work on a goal for the time of the block, as a worker that others can see.

        Raises: Conflict when this process works on it already.
        """
        if goal_id in self._held:
            raise Conflict(f"{goal_id} is being worked on by this process already.")
        self._held.add(goal_id)
        try:
            self._identity = self._identity or self._identify()
            worker = self._identity.worker
            if self._beating is None:
                await self._renew(worker)
            yield worker
        finally:
            self._held.discard(goal_id)

    async def run(self, worker: Worker, loop: Loop, *, is_resumed: bool) -> Ran:
        """Run the loop of a goal that is held; it and all that it has begun end when the lease was not renewed in time.

        Raises: Conflict when another has taken the goal; Unavailable.
        """
        goal_id = loop.journal.goal_id
        self._loops[goal_id] = loop
        beating = self._start_chores(worker)
        running = asyncio.create_task(loop.run(is_resumed=is_resumed))
        try:
            await asyncio.wait({running, beating}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
        finally:
            try:
                await _end(running)
            finally:  # whoever cancels us again leaves nothing behind either
                del self._loops[goal_id]
                if not self._loops:
                    await self._end_chores()
        raise Unavailable(
            f"The lease was not renewed for {self._lease_s * 2 / 3:g} s: the database did not answer, or this process"
            f" was stopped. So {goal_id} was ended here; another worker may have it by now. If not, resume it."
        )

    def is_sure(self) -> bool:
        """Tell whether nobody else can have taken our goals: the lease was renewed less than two thirds of it ago."""
        return self._clock.boottime_s() - self._renewed_s < self._lease_s * 2 / 3

    async def stay(self, worker: Worker) -> None:
        """Renew the lease, unless that was done less than a third of it ago: for what takes long before a loop runs."""
        if self._clock.boottime_s() - self._renewed_s >= self._lease_s / 3:
            await self._renew(worker)

    async def close(self) -> None:
        """Stop being a worker; whatever of its goals could not be released can be claimed by others at once."""
        await self._end_chores()
        if self._identity is not None:
            identity, self._identity = self._identity, None
            try:
                if not self._held:
                    await self._retire(identity.worker)
            finally:
                identity.close()

    async def _retire(self, worker: Worker) -> None:
        """Remove the lease; if that fails, its end does the same."""
        with contextlib.suppress(PerdureError, TimeoutError):
            async with asyncio.timeout(_RETIRE_S):
                await self._leases.retire(worker)

    def _start_chores(self, worker: Worker) -> "asyncio.Task[None]":
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat(worker))
            self._looking = asyncio.create_task(self._look(worker))
        return self._beating

    async def _end_chores(self) -> None:
        chores = [chore for chore in (self._beating, self._looking) if chore is not None]
        self._beating = self._looking = None
        for chore in chores:
            await _end(chore)

    async def _beat(self, worker: Worker) -> None:
        """Renew at each third of the lease; return when two thirds have passed since it last worked."""
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

    async def _look(self, worker: Worker) -> None:
        """Tell the loops of what was posted to their goals."""
        while True:
            await self._clock.sleep(LOOK_S)
            try:
                for goal_id in await self._store.posted(worker.id):
                    if goal_id in self._loops:
                        self._loops[goal_id].look()
            except PerdureError as error:
                log.warning("the inboxes of %s could not be looked at: %s", worker.id, error.detail)


async def _end(task: "asyncio.Task[Any]") -> None:
    """Cancel a task, wait for its end, and hear nothing more of it."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()
