"""Goals that run in tasks of this process, and the polling for goals that can be resumed here."""

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

LOOK_S = 0.5
MOST_RUNNING = 64
MOST_SKIPPED = 500
"""Maximum number of goals that a claim is told to skip; with more, only goals behind the last claimed one are tried."""
_MOST_DUE = 1_000
"""Maximum number of due goals of a queue that one poll reads; the next poll continues behind them."""
_BEGIN_S = 20.0
"""How long a caller waits until a goal has begun: code of a flow may block before that."""
_UNKNOWN_SEQ = -1

log = logging.getLogger(__name__)


@dataclass
class Run:
    """A goal that runs here, or is about to."""

    goal_id: str
    polled_seq: int | None = None
    """Its last seq when polling found it: no caller gets the error then, so it is logged."""
    loop: Loop | None = None
    is_stored: bool = True
    """False for a new or reopened goal before its first commit: until then its caller gets the error."""
    is_unattended: bool = False
    """Whether no caller waits until it runs: an error before that is logged."""
    task: "asyncio.Task[RunResult] | None" = None


class BackgroundRuns:
    """The goals of one queue that run in tasks of this process, without a caller that awaits them.

    Several processes share a queue through leases: each claims what no live worker owns.
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
        """Whether goals wait, as far as is known here: then a new one may not overtake them."""
        self.most_skipped = MOST_SKIPPED
        self._claiming = 0
        """How many goals are being claimed: their places are taken."""
        self._last_claimed: str | None = None
        """The open goal that was claimed last."""
        self._place: str | None = None
        """The goal behind which open goals are claimed; None for the oldest."""
        self._due_places: dict[str, GoalView | None] = {}
        """The goal of each queue behind which the next look at due goals begins; None for the longest due."""
        self._nudged = asyncio.Event()
        self._hurried = asyncio.Event()
        self._is_closing = False
        self.cut_short = 0
        """How many goals had a step that was ended, because it took too long, when this was closed."""
        self._outages = OutageLog(log, "polling for goals")

    @property
    def is_busy(self) -> bool:
        """Whether a goal runs here now."""
        return bool(self._running)

    @property
    def running(self) -> Collection[str]:
        """The goals that run here, or are about to."""
        return {run.goal_id for run in self._running.values()}

    @property
    def queue_name(self) -> str:
        """The queue whose goals run here."""
        return self._queue_name

    @property
    def _parks_for_children(self) -> bool:
        """Whether a goal is released while its children run: they may wait for its slot."""
        return True

    def nudge(self) -> None:
        """Poll now."""
        self._nudged.set()

    def would_run(self, goal: GoalView) -> bool:
        """Tell whether a goal of the queue is run here when there is room: not if that has failed just now."""
        return not (self._is_closing or self._is_hopeless(goal))

    async def run(self) -> None:
        """Poll the queue until `close`: resume what dead workers have left, and goals that are due or were answered."""
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
                async with asyncio.timeout(LOOK_S):
                    await self._nudged.wait()
            self._nudged.clear()

    async def poll(self) -> bool:
        """Poll once, now; tell whether a goal was resumed."""
        async with self._one_poll:
            begun = self._begun_count
            await self._claim_goals()
            return self._begun_count > begun

    async def close(self, patience_s: float = 10.0) -> None:
        """Begin nothing new, let running steps finish for `patience_s` or until `hurry`, and release all goals."""
        self._is_closing = True
        self.nudge()
        for run in self._running.values():
            if run.loop is not None:
                run.loop.stop()
        hurried = asyncio.ensure_future(self._hurried.wait())
        steps = asyncio.gather(*self._running, return_exceptions=True)
        either: set[asyncio.Future[Any]] = {hurried, steps}
        await asyncio.wait(either, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        self.cut_short = len(self._running)
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def hurry(self) -> None:
        """Let `close` stop waiting for running steps."""
        self._hurried.set()

    @property
    def _free(self) -> int:
        return 0 if self._is_closing else self.most - len(self._running) - self._claiming

    def _runs(self, goal_id: str) -> bool:
        return any(run.goal_id == goal_id for run in self._running.values())

    async def _claim_goals(self) -> None:
        """Resume goals that no worker runs while there is room: due ones and those of the queue by turns.

        This does not wait for a goal that begins: the code of one may block.
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
        """Claim the next goal of the queue and run it; tell whether there was one."""
        self._claiming += 1
        try:
            claimed = await self._goals.queues.claim_next(self._queue_name, skip=self._skip(), after=self._place)
        finally:
            self._claiming -= 1
        if claimed is None:
            return False
        if self._is_closing:
            await self._goals.queues.release(claimed)
            return False
        if self._goals.is_held_here(claimed.goal.goal_id):
            await self._goals.queues.release(claimed)
            self._failures.leave_alone(claimed.goal.goal_id, claimed.goal.last_seq, OWNED_S)
            return True  # its last run has released it and still unwinds on its thread
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
        """Return the goals that a claim skips, each with the seq at which it does: those that were left alone.

        The list is bounded: while more goals are left alone, only those behind the last claimed one are tried, which
        were not tried before.
        """
        alone = self._failures.left_alone()
        self._place = self._last_claimed if len(alone) > self.most_skipped else None
        running = {run.goal_id: run.polled_seq for run in self._running.values() if run.polled_seq is not None}
        return dict(alone[-self.most_skipped :]) | running

    def _take(self, goal: GoalView, *, is_woken: bool) -> None:
        self._begin(
            Run(goal.id, goal.summary.last_seq),
            lambda options: self._goals.resume_run(goal.id, replace(options, is_woken=is_woken, is_automatic=True)),
            lambda _goal: None,
        )

    async def _all_due(self, most: int) -> Sequence[GoalView]:
        """Return the due goals that are to be resumed here."""
        return await self._due(self._queue_name, most)

    async def _due(self, queue: str, most: int) -> Sequence[GoalView]:
        """Return due goals of a queue that can be tried; a poll reads a part of a long list, the next one continues."""
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
        return not (is_elsewhere or is_here or self._is_hopeless(goal))

    def _is_hopeless(self, goal: GoalView) -> bool:
        return self._failures.is_hopeless(goal.id, goal.summary.last_seq)

    async def _begun(self, run: Run, begin: Callable[[RunOptions], Awaitable[RunResult]]) -> GoalView:
        """Run a goal in a task of its own, and return as soon as it is ours and durable.

        Raises: whatever keeps it from that; Unavailable when code of a new goal blocks before it can be stored.
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
            return GoalView.of_state(task.result().state, queue=task.result().queue)
        if run.goal_id:
            return await self._goals.find(run.goal_id)
        task.cancel()
        raise Unavailable("The code of the flow blocks before the goal can be stored; nothing was started.")

    def _begin(
        self, run: Run, begin: Callable[[RunOptions], Awaitable[RunResult]], on_begun: Callable[[GoalView], object]
    ) -> "asyncio.Task[RunResult]":
        """Run a goal in a task of its own; `on_begun` is called once, when it is ours and durable.

        It may be called on the thread of the goal's flow. What is committed later is not looked at.
        """

        def watch(loop: Loop) -> None:
            def stored(_events: Sequence[Event], state: GoalState) -> None:
                if not run.is_stored:
                    run.is_stored = True
                    on_begun(GoalView.of_state(state, queue=loop.journal.queue))

            run.loop, run.goal_id = loop, loop.journal.goal_id
            if self._is_closing:
                loop.stop()
            if run.is_stored:
                on_begun(GoalView.of_state(loop.state, queue=loop.journal.queue))
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
        """Remove a finished task, and log its error; a failed goal is not tried again at once."""
        run = self._running.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._forget_failure(run, task.result().state)
            self._failures.forget_warning(run.goal_id)
            self.nudge()
        elif not run.is_stored:
            return  # for example a lost key race: its caller gets the error
        elif run.loop is not None:
            self._failures.note(run.goal_id, run.loop.state.head.seq, error)
        elif run.polled_seq is not None:
            self._failures.note(run.goal_id, run.polled_seq, error)
        elif run.is_unattended:
            self._failures.note(run.goal_id, _UNKNOWN_SEQ, error)

    def _forget_failure(self, run: Run, state: GoalState) -> None:
        """Try a goal again as soon as it can run, unless the next poll would find it as this one did.

        An approval stays in the inbox of a goal until it runs, so a goal on hold with one would be found at every poll.
        A run without progress, which recorded nothing and left the goal open, would be repeated in a tight loop.
        """
        if is_held(state):
            self._failures.leave_alone(run.goal_id, state.head.seq, PATIENCE_S)
        elif state.status == "open" and state.head.seq == run.polled_seq:
            self._failures.leave_alone(run.goal_id, state.head.seq, MOMENT_S)
        else:
            self._failures.retry_now(run.goal_id)
