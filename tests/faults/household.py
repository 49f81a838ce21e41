"""Runs the children of a random flow beside it, in the same process: all of them die with it."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from perdure import NotFound
from perdure.kernel.calls.children import (
    CHILD_FAILED,
    child_of,
    is_cancelled_for_other,
    open_children,
    outcome_of,
    start_key,
)
from perdure.kernel.calls.cleanup import PARENT
from perdure.kernel.events import GoalBegun, MindSpec, ParentCall, Reopened, ToolCall, ToolOutput
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.reopening import plan_continuation, plan_retry
from perdure.kernel.journal import Journal
from perdure.kernel.loop import Loop, RunResult
from perdure.kernel.ports import Ended, Worker
from tests.faults.families import child_flow_with_cleanup
from tests.kernel.world import World


class Died(BaseException):
    """What a process feels when it is killed: nothing of ours may catch it."""


async def _write_nothing() -> None:
    pass


@dataclass
class ProcessWorld(World):
    """A world with one worker for each process. Their names are used by no other world, because they share a store."""

    name: str = ""
    worker: Worker | None = None
    finish_writes: Callable[[], Awaitable[None]] = _write_nothing
    """Waits for what a process had begun to write when it died: that may be committed after its death."""

    def begin_process(self) -> None:
        """Let the worker be dead, and begin with a new one."""
        self.dead.add(f"{self.name}-{self.workers}")
        self.worker = None

    def new_worker(self) -> Worker:
        """See World.new_worker. Return the worker of this process."""
        if self.worker is None:
            self.worker = replace(super().new_worker(), id=f"{self.name}-{self.workers}")
        return self.worker

    async def _run(self, journal: Journal, worker: Worker, *, is_resumed: bool) -> RunResult:  # noqa: ARG002 (as World)
        """See World._run. A process that is cut short is dead, and gives nothing back."""
        return await self._loop(journal).run(is_resumed=is_resumed)

    async def state(self, goal_id: str) -> GoalState | None:
        """Return where a goal stands; None when it was never created."""
        try:
            return fold(await self.store.load(goal_id))
        except NotFound:
            return None


def _running_steps() -> list["asyncio.Task[Any]"]:
    """Return the tasks of steps, which a loop that died by an exception has left running."""
    return [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", "") == "ToolRuns.run"]


WaitForNews = Callable[[GoalState, Iterable["asyncio.Future[Any]"]], Awaitable[None]]


class Household:
    """The children of one goal, and theirs. See Children."""

    def __init__(self, world: ProcessWorld, *, parks: bool) -> None:
        self._world = world
        self._parks = parks
        """Whether a parent is released while its children run."""
        self.wait_for_news: WaitForNews
        self.created: list[str] = []
        self.loops: dict[str, Loop] = {}
        """The newest run of each goal."""
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, asyncio.Event] = {}
        """The children that wait for news, and what is set when something was posted to them."""
        self.on_death: Callable[[], None]
        self.is_dead = False
        self.error: BaseException | None = None
        """Why a child cannot be run: a fault of the engine."""
        self._cancels = 0

    def runs(self) -> list["asyncio.Task[None]"]:
        """Return the runs of children that have not ended."""
        return [run for run in self._runs.values() if not run.done()]

    def check_inbox(self, goal_id: str) -> None:
        """Have a goal look into its inbox."""
        if goal_id in self._waiting:
            self._waiting[goal_id].set()
        if goal_id in self.loops:
            self.loops[goal_id].check_inbox()

    async def die(self) -> None:
        """End all runs, and the steps that they have begun: the process has died.

        What it had handed to its database is committed or not before the next process begins, as by a database that
        waits for the end of the sessions of a dead client.
        """
        runs = [*self.runs(), *_running_steps()]
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
        await self._world.finish_writes()
        self._runs.clear()
        self._waiting.clear()
        self.loops.clear()
        self.is_dead = False
        if self.error is not None:
            raise self.error

    async def start(self, parent: GoalState, calls: Sequence[ToolCall], queue: str) -> Sequence[ToolOutput]:  # noqa: ARG002
        """See Children.start."""
        known: list[ToolOutput] = []
        for call in calls:
            goal_id = str(call.arguments["goal_id"])
            state = await self._world.state(goal_id)
            if state is None:
                await self._create(parent, call, goal_id)
            is_over = state is not None and state.termination is not None
            if state is not None and is_cancelled_for_other(state, call.call_id):
                await self._reopen(state, plan_continuation(state, call.call_id))
                is_over = False
            if not is_over:
                self._ensure_run(goal_id, parent.goal_id)
            elif (ended := await outcome_of(self._world.store, parent, goal_id)) is not None:
                known.append(ended)
        return known

    async def reopen_failed(self, state: GoalState) -> None:
        """Reopen the failed children that a failed goal has ended by, and theirs, before the goal itself is retried."""
        for call in (state.calls[call_id] for call_id in plan_retry(state, by="person").again):
            if call.outcome is None or call.outcome.error is None or call.outcome.error.code != CHILD_FAILED:
                continue
            child = await self._world.state(child_of(call))
            if child is not None and child.status == "failed":  # not reopened before by a process that died then
                await self.reopen_failed(child)
                await self._reopen(child, plan_retry(child, by="person"))

    async def _reopen(self, child: GoalState, reopened: Reopened) -> None:
        journal = await self._world._claimed(child.goal_id, self._world.new_worker(), reopen=True)
        journal.reopen(reopened, key=None)
        await journal.commit_opening()
        await journal.commit(release=True)

    async def cancel(self, goal_ids: Collection[str]) -> None:
        """See Children.cancel."""
        for goal_id in goal_ids:
            state = await self._world.state(goal_id)
            if state is None or state.termination is not None:
                continue
            self._cancels += 1
            key = f"{goal_id}/cancel/{self._cancels}"
            with suppress(Ended):  # meanwhile
                await self._world.store.post(goal_id, "cancel", {"by": PARENT}, key=key)
                await self._run_to_end(state)

    async def _run_to_end(self, state: GoalState | None) -> None:
        """Run a child that was cancelled until it has ended."""
        while state is not None and state.termination is None:
            assert state.begun.parent is not None
            self._ensure_run(state.goal_id, state.begun.parent.goal_id)
            self.check_inbox(state.goal_id)
            await asyncio.wait([self._runs[state.goal_id]])
            if self.is_dead:
                await asyncio.Event().wait()  # until this task is ended, too
            state = await self._world.state(state.goal_id)

    def has_ended_one(self, state: GoalState) -> bool:
        """Return whether a child that a goal waits for does not run: it has ended, or was stopped."""
        return any(goal_id not in self._runs or self._runs[goal_id].done() for goal_id in open_children(state))

    async def are_active(self, goal_ids: Collection[str]) -> bool:
        """See Children.are_active."""
        running = {goal_id for goal_id, run in self._runs.items() if not run.done()} - self._waiting.keys()
        return not self._parks and not running.isdisjoint(goal_ids)

    async def _create(self, parent: GoalState, call: ToolCall, goal_id: str) -> None:
        asked, key = call.arguments, start_key(parent.goal_id, call.call_id)
        has_cleanup = asked["flow"] == child_flow_with_cleanup.name
        spec = MindSpec("flow", flow=asked["flow"], at=asked["at"], args=asked["args"], cleanup=has_cleanup)
        begun = GoalBegun("a", spec, workdir="/", parent=ParentCall(parent.goal_id, call.call_id))
        worker = self._world.new_worker()
        await self._world.leases.renew(worker, 30)
        self.created.append(goal_id)
        journal = Journal.begin(self._world._journal_deps(worker), begun, goal_id, start_key=key)
        await journal.commit(release=True)

    def _ensure_run(self, goal_id: str, parent_id: str) -> None:
        if goal_id not in self._runs or self._runs[goal_id].done():
            self._runs[goal_id] = asyncio.create_task(self._run(goal_id, parent_id))

    async def _run(self, goal_id: str, parent_id: str) -> None:
        try:
            while (ran := await self._world.resume(goal_id)).outcome == "waiting":
                posted = self._waiting[goal_id] = asyncio.Event()
                self.check_inbox(parent_id)
                await self._wait(ran.state, posted)
                del self._waiting[goal_id]
        except Ended:
            pass  # before it could be claimed
        except Died:
            self.is_dead = True
            self.on_death()
        except Exception as error:  # noqa: BLE001 (of the engine: the test fails by it)
            self.error, self.is_dead = error, True
            self.on_death()
        finally:
            self.check_inbox(parent_id)

    async def _wait(self, state: GoalState, posted: asyncio.Event) -> None:
        """Wait for what a child waits for: a post, its own children, a person or a moment."""
        woken = asyncio.ensure_future(posted.wait())
        try:
            own = self._runs[state.goal_id]
            await self.wait_for_news(state, [woken, *(run for run in self.runs() if run is not own)])
        finally:
            woken.cancel()
