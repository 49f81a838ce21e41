"""Runs goals in tasks of this process, and polls for goals that can be resumed here."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perdure.app.goals.arguments.run_options import RunOptions, Watch
from perdure.app.outage_log import OutageLog
from perdure.app.wire.goal_view import GoalView
from perdure.app.workers.failed_runs import MOMENT_S, OWNED_S, PATIENCE_S, FailedRuns
from perdure.errors import PerdureError, Unavailable
from perdure.kernel.calls.holding import is_held
from perdure.kernel.events import Event
from perdure.kernel.fold import GoalState
from perdure.kernel.loop import Loop, RunResult
from perdure.kernel.ports import ClaimedGoal, Clock

if TYPE_CHECKING:
    from perdure.app.goals.goals import Goals

POLL_S = 0.5
MOST_RUNNING = 64
MOST_SKIPPED = 500
"""Maximum number of goals that a claim skips; with more, only goals after the last claimed one are tried."""
_MOST_DUE = 1_000
"""Maximum number of due goals of a queue that one poll reads; the next poll continues after them."""
_BEGIN_S = 20.0
"""The time that a caller waits for the start of a goal: code of a flow may block before it."""
_UNKNOWN_SEQ = -1

log = logging.getLogger(__name__)


@dataclass
class Run:
    """A goal that runs here, or is about to run."""

    goal_id: str
    polled_seq: int | None = None
    """Its last seq when a poll found it; its errors are logged then, because no caller gets them."""
    loop: Loop | None = None
    is_stored: bool = True
    """False for a new or reopened goal before its first commit: until then its caller gets the error."""
    is_unattended: bool = False
    """Whether no caller waits for its start; an error before the start is logged then."""
    task: "asyncio.Task[RunResult] | None" = None


class BackgroundRuns:
    """The goals of one queue that run in tasks of this process, without a caller that awaits them.

    Several processes share a queue through leases: each claims goals that no live worker owns.
    """

    def __init__(self, goals: "Goals", clock: Clock, *, queue: str, most: int = MOST_RUNNING) -> None:
        self._goals = goals
        self._clock = clock
        self._queue_name = queue
        self.most = most
        self._running: dict[asyncio.Task[RunResult], Run] = {}
        self._begun_count = 0
        self._one_poll = asyncio.Lock()
        self._failures = FailedRuns(clock, log)
        self._has_queue = False
        """Whether goals are known to wait; a new one must not overtake them."""
        self.most_skipped = MOST_SKIPPED
        self._claims_in_progress = 0
        """The number of goals that are being claimed, which count as running."""
        self._last_claimed: str | None = None
        """The open goal that was claimed last."""
        self._place: str | None = None
        """The goal after which open goals are claimed; None for the oldest."""
        self._due_places: dict[str, GoalView | None] = {}
        """The goal of each queue after which the next poll of due goals starts; None for the longest overdue."""
        self._poll_requested = asyncio.Event()
        self._wait_ended = asyncio.Event()
        self._is_closing = False
        self.cut_short = 0
        """The number of goals that `close` interrupted in a step that took too long."""
        self._outages = OutageLog(log, "polling for goals")

    @property
    def is_busy(self) -> bool:
        """Return whether a goal runs here now."""
        return bool(self._running)

    @property
    def running(self) -> Collection[str]:
        """The ids of goals that run here, or are about to run."""
        return {run.goal_id for run in self._running.values()}

    @property
    def queue_name(self) -> str:
        """The queue whose goals run here."""
        return self._queue_name

    @property
    def _parks_for_children(self) -> bool:
        """Return whether a goal is released while its children run, because they may wait for its slot."""
        return True

    def poll_soon(self) -> None:
        """Start the next poll without waiting."""
        self._poll_requested.set()

    def would_run(self, goal: GoalView) -> bool:
        """Return whether a goal of the queue will be run here when there is room; not after a recent failure."""
        return not (self._is_closing or self._is_paused(goal))

    async def run(self) -> None:
        """Poll the queue until `close`: resume goals of dead workers, and goals that are due or were answered."""
        while not self._is_closing:
            try:
                await self.poll()
            except PerdureError as error:
                self._outages.failed(error.detail)
            except Exception as error:  # noqa: BLE001 (the edge of this worker: polling must not end)
                self._outages.failed(f"{type(error).__name__}: {error}")
            else:
                self._outages.worked()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._poll_requested.wait()
            self._poll_requested.clear()

    async def poll(self) -> bool:
        """Poll once; return whether a goal was resumed."""
        async with self._one_poll:
            begun = self._begun_count
            await self._claim_goals()
            return self._begun_count > begun

    async def close(self, patience_s: float = 10.0) -> None:
        """Stop starting goals, let running steps finish for `patience_s` or until `end_wait`, and release all goals."""
        self._is_closing = True
        self.poll_soon()
        for run in self._running.values():
            if run.loop is not None:
                run.loop.stop()
        wait_ended = asyncio.ensure_future(self._wait_ended.wait())
        steps = asyncio.gather(*self._running, return_exceptions=True)
        either: set[asyncio.Future[Any]] = {wait_ended, steps}
        await asyncio.wait(either, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        wait_ended.cancel()
        self.cut_short = len(self._running)
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def end_wait(self) -> None:
        """Let `close` stop waiting for running steps."""
        self._wait_ended.set()

    @property
    def _free(self) -> int:
        return 0 if self._is_closing else self.most - len(self._running) - self._claims_in_progress

    def _runs(self, goal_id: str) -> bool:
        return any(run.goal_id == goal_id for run in self._running.values())

    async def _claim_goals(self) -> None:
        """Resume goals that no worker runs while there is room, alternately due goals and goals of the queue.

        This does not wait for the start of a goal, because its code may block.
        """
        if self._free <= 0:
            return
        for goal in await self._goals.queues.unsure(self._queue_name):
            if self._can_be_tried(goal):
                self._take(goal, is_woken=False)
        due, is_more_queued = deque(await self._all_due(self._free)), True
        while self._free > 0 and (due or is_more_queued):
            if due and not self._runs(due[0].id):
                self._take(due[0], is_woken=True)
            if due:
                due.popleft()
            is_more_queued = self._free > 0 and is_more_queued and await self._run_next()
        self._has_queue = self._free <= 0 and (bool(due) or await self._has_next())

    async def _run_next(self) -> bool:
        """Claim the next goal of the queue and run it; return whether there was one."""
        self._claims_in_progress += 1
        try:
            claimed = await self._goals.queues.claim_next(self._queue_name, skip=self._skip(), after=self._place)
        finally:
            self._claims_in_progress -= 1
        if claimed is None:
            return False
        if self._is_closing:
            await self._goals.queues.release(claimed)
            return False
        if self._goals.is_held_here(claimed.goal.goal_id):
            await self._goals.queues.release(claimed)
            self._failures.pause(claimed.goal.goal_id, claimed.goal.last_seq, OWNED_S)
            return True  # its last run has released it, but still unwinds on its thread
        if claimed.goal.status == "open":
            self._last_claimed = claimed.goal.goal_id
        self._run_claimed(claimed)
        return True

    def _run_claimed(self, claimed: ClaimedGoal) -> None:
        goal = claimed.goal
        is_due = goal.due_us is not None and goal.due_us <= self._clock.now_us()
        self._begin(
            Run(goal.goal_id, goal.last_seq),
            lambda options: self._goals.queues.run(claimed, replace(options, is_woken=is_due, is_automatic=True)),
            lambda _goal: None,
        )

    async def _has_next(self) -> bool:
        return await self._goals.queues.has_next(self._queue_name, skip=self._skip(), after=self._place)

    def _skip(self) -> dict[str, int]:
        """Return the goals that a claim skips, each with its seq: goals whose last run failed recently.

        The list is bounded: with more such goals, only goals after the last claimed one are tried, which were not tried
        before.
        """
        paused = self._failures.paused()
        self._place = self._last_claimed if len(paused) > self.most_skipped else None
        running = {run.goal_id: run.polled_seq for run in self._running.values() if run.polled_seq is not None}
        return dict(paused[-self.most_skipped :]) | running

    def _take(self, goal: GoalView, *, is_woken: bool) -> None:
        self._begin(
            Run(goal.id, goal.summary.last_seq),
            lambda options: self._goals.resume_run(goal.id, replace(options, is_woken=is_woken, is_automatic=True)),
            lambda _goal: None,
        )

    async def _all_due(self, most: int) -> Sequence[GoalView]:
        """Return the due goals of this worker."""
        return await self._due(self._queue_name, most)

    async def _due(self, queue: str, most: int) -> Sequence[GoalView]:
        """Return due goals of a queue that can be tried; successive polls read parts of a long list."""
        found: list[GoalView] = []
        read, after = 0, self._due_places.get(queue)
        self._due_places[queue] = None
        async for goal in self._goals.each_due(queue=queue, after=after):
            read += 1
            if self._can_be_tried(goal):
                found.append(goal)
            if len(found) >= most or read >= _MOST_DUE:
                self._due_places[queue] = goal if read >= _MOST_DUE else None
                break
        return found

    def _can_be_tried(self, goal: GoalView) -> bool:
        is_elsewhere = goal.is_running and not self._goals.is_of_this_process(goal)
        is_here = self._runs(goal.id) or self._goals.is_held_here(goal.id)
        return not (is_elsewhere or is_here or self._is_paused(goal))

    def _is_paused(self, goal: GoalView) -> bool:
        return self._failures.is_paused(goal.id, goal.summary.last_seq)

    async def _begin_durably(self, run: Run, begin: Callable[[RunOptions], Awaitable[RunResult]]) -> GoalView:
        """Run a goal in its own task, and return as soon as it is claimed and durable.

        Raises: the errors of the start; Unavailable when code of a new goal blocks before the goal can be stored.
        """
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[GoalView] = loop.create_future()

        def tell(goal: GoalView) -> None:
            if not begun.done():
                begun.set_result(goal)

        task = self._begin(run, begin, lambda goal: loop.call_soon_threadsafe(tell, goal))
        either: set[asyncio.Future[Any]] = {task, begun}
        await asyncio.wait(either, timeout=_BEGIN_S, return_when=asyncio.FIRST_COMPLETED)
        if begun.done():
            return replace(begun.result(), is_running=not task.done())
        if task.done():
            ended = task.result()
            return GoalView.of_state(ended.state, queue=ended.queue, start_key=ended.start_key)
        if run.goal_id:
            return await self._goals.find(run.goal_id)
        task.cancel()
        raise Unavailable("The code of the flow blocks before the goal can be stored; nothing was started.")

    def _begin(
        self, run: Run, begin: Callable[[RunOptions], Awaitable[RunResult]], on_begun: Callable[[GoalView], object]
    ) -> "asyncio.Task[RunResult]":
        """Run a goal in its own task; `on_begun` is called once, when the goal is claimed and durable.

        It may be called on the thread of the goal's flow.
        """

        def watch(loop: Loop) -> None:
            def stored(_events: Sequence[Event], state: GoalState) -> None:
                if not run.is_stored:
                    run.is_stored = True
                    on_begun(GoalView.of_state(state, queue=loop.journal.queue, start_key=loop.journal.start_key))

            run.loop, run.goal_id = loop, loop.journal.goal_id
            if self._is_closing:
                loop.stop()
            if run.is_stored:
                on_begun(GoalView.of_state(loop.state, queue=loop.journal.queue, start_key=loop.journal.start_key))
            else:
                loop.journal.listen(stored)

        task = asyncio.ensure_future(begin(self._run_options(watch)))
        run.task = task
        self._begun_count += 1
        self._running[task] = run
        task.add_done_callback(self._ended)
        return task

    def _run_options(self, watch: Watch) -> RunOptions:
        parks = self._parks_for_children
        return RunOptions(watch=watch, queue=self._queue_name, tell=None, parks_for_children=parks)

    def _ended(self, task: "asyncio.Task[RunResult]") -> None:
        """Remove a finished task, and log its error; a goal whose run failed is not retried at once."""
        run = self._running.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._forget_failure(run, task.result().state)
            self._failures.forget_warning(run.goal_id)
            self.poll_soon()
        elif not run.is_stored:
            return  # for example a lost key race: its caller gets the error
        elif run.loop is not None:
            self._failures.note(run.goal_id, run.loop.state.head.seq, error)
        elif run.polled_seq is not None:
            self._failures.note(run.goal_id, run.polled_seq, error)
        elif run.is_unattended:
            self._failures.note(run.goal_id, _UNKNOWN_SEQ, error)

    def _forget_failure(self, run: Run, state: GoalState) -> None:
        """Allow the next run of a goal as soon as it can run, unless that would repeat a run without progress.

        An approval stays in the inbox of a goal until it runs, so a goal on hold with one would be found at every poll.
        A run that recorded nothing and left the goal open would be repeated in a tight loop.
        """
        if is_held(state):
            self._failures.pause(run.goal_id, state.head.seq, PATIENCE_S)
        elif state.status == "open" and state.head.seq == run.polled_seq:
            self._failures.pause(run.goal_id, state.head.seq, MOMENT_S)
        else:
            self._failures.retry_now(run.goal_id)
