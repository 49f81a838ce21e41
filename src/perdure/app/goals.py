"""What can be done with goals: start, resume, look, decide, cancel, replay."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from perdure.app.system import SystemClock, SystemIds, WorkerIdentity
from perdure.errors import Conflict, Invalid
from perdure.kernel.events import Event, GoalBegun, MindSpec
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.journal import Journal
from perdure.kernel.loop import Loop, Ran
from perdure.kernel.ports import Leases, StateStore, Summary, Tool
from perdure.kernel.replay import Replayed, replay
from perdure.minds.factory import make_mind
from perdure.settings import Settings
from perdure.tools.exec import ExecTool
from perdure.tools.files import ReadFileTool, WriteFileTool

LEASE_S = 30.0

Watch = Callable[[Loop], None]


class Goals:
    """The goals of a home."""

    def __init__(self, settings: Settings, store: StateStore, leases: Callable[[WorkerIdentity], Leases]) -> None:
        self._settings = settings
        self._store = store
        self._leases = leases
        self._clock = SystemClock()
        self._ids = SystemIds()

    async def run(self, mind: MindSpec, text: str, workdir: Path, *, jobs: int = 4, watch: Watch | None = None) -> Ran:
        """Start a goal and run it until it ends, waits for somebody, or is stopped."""
        made = make_mind(mind, text, jobs)
        async with self._working() as (identity, _):
            begun = GoalBegun(text, mind, workdir=str(workdir))
            goal_id = self._ids.goal_id(text)
            journal = Journal.begin(self._store, self._clock, self._ids, identity.worker, begun, goal_id)
            loop = Loop(journal, self._store, made, self._tools(), self._clock, str(workdir))
            if watch is not None:
                watch(loop)
            return await loop.run(is_resumed=False)

    async def resume(self, prefix: str, *, jobs: int = 4, watch: Watch | None = None) -> Ran:
        """Go on with a goal; one that has ended is left as it is.

        Raises: NotFound; Conflict when another live worker runs it.
        """
        summary = await self._store.find(prefix)
        if summary.status in ("done", "stopped"):
            return Ran("ended", await self.state(summary.goal_id))
        async with self._working() as (identity, leases):
            epoch = await leases.claim(summary.goal_id, identity.worker)
            state = await self.state(summary.goal_id)
            journal = Journal(self._store, self._clock, self._ids, identity.worker, state, epoch)
            made = make_mind(state.begun.mind, state.begun.text, jobs)
            workdir = state.begun.workdir or str(self._settings.home)
            loop = Loop(journal, self._store, made, self._tools(), self._clock, workdir)
            if watch is not None:
                watch(loop)
            return await loop.run(is_resumed=True)

    async def list(self, *, limit: int = 50) -> Sequence[Summary]:
        """Return the newest goals."""
        return await self._store.list_goals(limit=limit)

    async def find(self, prefix: str) -> Summary:
        """Return the goal whose id begins with a prefix."""
        return await self._store.find(prefix)

    async def history(self, goal_id: str) -> Sequence[Event]:
        """Return all events of a goal."""
        return await self._store.load(goal_id)

    async def state(self, goal_id: str) -> GoalState:
        """Return what the events of a goal say."""
        return fold(await self._store.load(goal_id))

    async def replay(self, prefix: str) -> Replayed:
        """Fold the history of a goal again, checking every event."""
        summary = await self._store.find(prefix)
        return replay(await self._store.load(summary.goal_id), summary)

    async def decide(self, prefix: str, call_id: str, decision: str, value: Any = None) -> Summary:
        """Settle an open call. It is durable when this returns; the goal goes on when it is resumed, or runs anyway.

        Raises: NotFound; Invalid; Conflict when nothing of that name is open.
        """
        summary = await self._store.find(prefix)
        if decision not in ("answer", "retry", "skip", "abort"):
            raise Invalid(f"{decision!r} is no decision; known are answer, retry, skip and abort.")
        state = await self.state(summary.goal_id)
        if call_id not in state.open_calls:
            known = ", ".join(state.open_calls) or "nothing"
            raise Conflict(f"{call_id!r} is not open in {summary.goal_id}; open is {known}.")
        payload = {"call_id": call_id, "decision": decision, "value": value}
        await self._store.post(summary.goal_id, "decision", payload, key=self._ids.event_id())
        return summary

    async def cancel(self, prefix: str) -> Summary:
        """Ask for the end of a goal; who runs it ends it, or the next resume does."""
        summary = await self._store.find(prefix)
        await self._store.post(summary.goal_id, "cancel", {}, key=self._ids.event_id())
        return summary

    def _tools(self) -> dict[str, Tool]:
        tools: list[Tool] = [ExecTool(self._settings.home / "run"), ReadFileTool(), WriteFileTool()]
        return {tool.name: tool for tool in tools}

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[tuple[WorkerIdentity, Leases]]:
        """Be a worker for the time of the block, and let others see that it lives."""
        identity = WorkerIdentity(self._settings.home)
        leases = self._leases(identity)
        await leases.renew(identity.worker, LEASE_S)
        beat = asyncio.create_task(self._heartbeat(identity, leases))
        try:
            yield identity, leases
        finally:
            beat.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beat
            identity.close()

    async def _heartbeat(self, identity: WorkerIdentity, leases: Leases) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 3)
            await leases.renew(identity.worker, LEASE_S)
