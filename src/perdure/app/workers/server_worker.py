"""The worker of a server: runs the goals of the queue `server`, and resumes them after a restart."""

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from perdure.app.goals.arguments.run_options import NO_MODEL_CHANGE, ModelChange, Reopening, RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import NewGoal
from perdure.app.idempotency import Idempotency
from perdure.app.wire.goal_view import GoalView
from perdure.app.workers.background import MOST_RUNNING, BackgroundRuns, Run
from perdure.app.workers.failed_runs import PATIENCE_S
from perdure.app.workers.flow_threads import Apart
from perdure.errors import Conflict, Exhausted, PerdureError
from perdure.kernel.events import Limits, MindSpec
from perdure.kernel.loop import RunResult
from perdure.kernel.ports import Clock, IdempotencyKeys, IdempotentCall, Owned
from perdure.minds.flow.registry import is_own_name

MOST_QUEUED = 10_000

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WakeCli:
    """Which goals of the command line a server wakes when they are due: commands, plans, and these flows."""

    flows: frozenset[str] = frozenset()
    """As `module:function`, or by the `name` of a flow."""


class ServerWorker(BackgroundRuns):
    """The goals of a server: goals that were started or resumed through it.

    Of the goals of the command line it runs only those that sleep, are due and have no live worker; with `wakes`.
    Every goal is durable before `start` returns. Goals that are left when the process ends are resumed by the next
    server on the same home. Goals beyond those that run at once wait in the queue, which is the store itself:
    the open goals of servers that no live worker owns.
    """

    def __init__(
        self,
        goals: Goals,
        keys: IdempotencyKeys,
        clock: Clock,
        *,
        most: int = MOST_RUNNING,
        wakes: WakeCli | None = None,
    ) -> None:
        super().__init__(goals, clock, queue="server", most=most)
        goals.children.poller = self
        self._wakes = wakes
        self._calls = Idempotency(keys)
        self.most_queued = MOST_QUEUED
        self.apart = Apart()
        """Calls user code outside of goals."""
        self._being_queued = 0
        """The number of goals that were admitted to the queue and are not stored yet."""
        self._ever_admitted = 0

    async def start(self, new: NewGoal) -> GoalView:
        """Start a goal, and return it as soon as it is durable; a used key returns the goal that it started.

        If the maximum number of goals runs, it is queued, and starts after the goals before it.

        Raises: Invalid; Conflict when the key started something else; Exhausted when too many goals are queued.
        """
        if new.key is not None and (known := await self._goals.started(new)) is not None:
            return known
        try:
            if self._must_queue():
                return await self._queue(lambda: self._goals.enqueue(new))
            return await self._begin_durably(Run("", is_stored=False), lambda options: self._goals.begin(new, options))
        except Conflict:
            known = None if new.key is None else await self._goals.started(new)
            if known is None:
                raise
            return known

    async def resume(
        self,
        prefix: str,
        limits: Limits | None = None,
        *,
        model: str | None = None,
        compacts: bool = False,
        once: IdempotentCall | None = None,
    ) -> GoalView:
        """Resume a goal here, optionally with another model, and return it as soon as it is claimed or queued.

        `compacts` summarises the beginning of a conversation first. The same call, identified by its key, resumes the
        goal once; a repeat returns the goal unchanged.

        Raises: NotFound; Conflict when another live worker runs it, or the key was used for another call; Invalid when
        a limit is not above what was used, or the goal cannot have the model; Exhausted when too many goals are queued,
        or a goal with another model, or to be summarised, would be.
        """
        goal = await self._goals.get(prefix)
        if model is not None:
            self._goals.model_goals.require_model(await self._goals.begun(goal.id), model)
        if compacts:
            await self._goals.conversations.require(goal.id)
        change = ModelChange(model, compacts)

        async def present() -> GoalView:
            return goal

        return await self._calls.keep_last(once, goal.id, lambda: self._resume(goal, limits, change), present)

    async def resume_posted(self, goal: GoalView) -> None:
        """Resume a goal after a post, unless a worker owns it; if the queue is full, it runs later.

        Raises: Conflict when it cannot be run.
        """
        if not (goal.is_final or goal.is_running):
            with contextlib.suppress(Owned, Exhausted):
                await self._resume(goal, None)

    async def retry(self, goal_id: str, again: Reopening) -> GoalView:
        """Retry a failed goal here, and return it as soon as it is reopened; see Goals.retry.

        Raises: NotFound; Conflict; Invalid; Exhausted when too many goals are queued.
        """
        goal = await self._goals.get(goal_id)
        try:
            if await self._goals.retries.has_retried(goal.id, again):
                return await self._resume_retried(goal)
            if self._must_queue():
                return await self._queue(lambda: self._goals.retries.enqueue(goal.id, again))
            return await self._begin_durably(
                Run(goal.id, is_stored=False), lambda options: self._reopen(goal.id, options, again)
            )
        except Owned:
            if not await self._goals.retries.has_retried(goal.id, again):
                raise
            return await self._goals.get(goal.id)  # the same call, made twice at the same time

    async def cancel(self, goal_id: str, *, reason: str | None, now: bool, key: str | None) -> GoalView:
        """Cancel a goal, and return it as it is then; see Goals.cancel.

        The cleanup of a goal of the command line that no worker runs is run by this server.

        Raises: as Goals.cancel.
        """
        cancel = partial(self._goals.cancel, goal_id, reason=reason, now=now, key=key, is_cleaned_up_here=False)
        goal = await self._goals.get(goal_id)
        if goal.summary.queue != "cli" or goal.is_running:
            return await cancel()
        goal = await cancel(wait_s=0)
        if goal.is_final or goal.is_running or not goal.is_news:
            return goal
        with contextlib.suppress(PerdureError):  # its code is not available: it stays cancelled and interrupted
            await self._resume(goal, None)
        return await self._goals.wait_for_end(goal_id)

    async def _reopen(self, goal_id: str, options: RunOptions, again: Reopening) -> RunResult:
        return await self._goals.retries.reopen(goal_id, options, again)

    async def _resume_retried(self, goal: GoalView) -> GoalView:
        """Return the goal that the key of this call has retried; an interrupted goal is resumed."""
        if goal.status != "interrupted" or await self._goals.needs_its_script(goal.id):
            return goal
        return await self._resume(goal, None)

    async def _resume(self, goal: GoalView, limits: Limits | None, change: ModelChange = NO_MODEL_CHANGE) -> GoalView:
        if goal.is_final or self._runs(goal.id):
            if change != NO_MODEL_CHANGE and not goal.is_final:
                raise Conflict(f"{goal.id} is running. Resume it {change.what} when it waits.")
            return goal
        if self._must_queue():
            if change != NO_MODEL_CHANGE:
                raise Exhausted(
                    f"The maximum number of goals is running, so the goal cannot be resumed {change.what}."
                    " Try again later."
                )
            return await self._queue_again(goal, limits or Limits())

        async def resume(options: RunOptions) -> RunResult:
            options = replace(options, model=change.model, compacts=change.compacts)
            return await self._goals.resume_run(goal.id, options, limits)

        return await self._begin_durably(Run(goal.id), resume)

    async def _queue_again(self, goal: GoalView, limits: Limits) -> GoalView:
        """Queue a goal, unless it is queued already."""
        if not goal.is_queued:
            return await self._queue(lambda: self._goals.enqueue_again(goal.id, limits))
        return goal if limits == Limits() else await self._goals.enqueue_again(goal.id, limits)

    def _must_queue(self) -> bool:
        """Return whether a goal has to wait for its turn.

        Raises: Exhausted when the server is shutting down.
        """
        if self._is_closing:
            raise Exhausted("The server is shutting down and does not start goals any more.")
        return self._has_queue or self._free <= 0

    async def _queue(self, store: Callable[[], Awaitable[GoalView]]) -> GoalView:
        """Store a goal that waits for its turn.

        Raises: Exhausted when too many do already.
        """
        async with self._place_in_queue():
            goal = await store()
        self._has_queue = True
        self.poll_soon()
        return goal

    @contextlib.asynccontextmanager
    async def _place_in_queue(self) -> AsyncIterator[None]:
        """Reserve a place in the queue inside the block.

        The count may miss goals that were being stored when it began, and all that were admitted since. Both are added,
        so concurrent starts never exceed the limit; at worst a goal that was stored just now is counted twice. Goals
        that another server is storing at this moment are not known here.

        Raises: Exhausted when the queue is full.
        """
        in_flight, admitted = self._being_queued, self._ever_admitted
        queued = await self._goals.queues.count_queued(queue="server")
        queued += in_flight + self._ever_admitted - admitted
        if queued >= self.most_queued:
            raise Exhausted(f"{queued} goals are queued already; at most {self.most_queued} may be. Try again later.")
        self._being_queued += 1
        self._ever_admitted += 1
        try:
            yield
        finally:
            self._being_queued -= 1

    async def _all_due(self, most: int) -> Sequence[GoalView]:
        """Return due goals of the server and of the command line that this server wakes."""
        return [*await self._due("server", most), *await self._due_of_cli(most)]

    def _take(self, goal: GoalView, *, is_woken: bool) -> None:
        if goal.summary.queue == "cli":
            log.info("resuming %s: due since %s", goal.id, goal.due_at)
        super()._take(goal, is_woken=is_woken)

    async def _due_of_cli(self, most: int) -> Sequence[GoalView]:
        """Return the due goals of the command line that this server may wake.

        `is_running` is checked first: a goal that sleeps in a terminal has a live worker, and is left to it.
        """
        if self._wakes is None:
            return ()
        found = [goal for goal in await self._due("cli", most) if not goal.is_running]
        return [goal for goal in found if await self._may_wake(goal, self._wakes)]

    async def _may_wake(self, goal: GoalView, wakes: WakeCli) -> bool:
        """Return whether the server may run a goal of the command line; otherwise the goal is paused.

        The first event names the function of a flow. A history that cannot be read does not block other goals.
        """
        if goal.summary.mind in ("command", "plan"):
            return True
        if goal.summary.mind == "flow" and wakes.flows:
            try:
                is_named = _is_named((await self._goals.begun(goal.id)).mind, wakes.flows)
            except PerdureError as error:
                log.warning("%s cannot be woken: %s", goal.id, error.detail)
            else:
                if is_named:
                    return True
        self._failures.pause(goal.id, goal.summary.last_seq, PATIENCE_S)
        return False


def _is_named(mind: MindSpec, flows: Collection[str]) -> bool:
    """Return whether a flow is in a list of flows, by its path or by its name."""
    has_name = mind.at is not None and is_own_name(mind.at, mind.flow)
    return mind.at in flows or (has_name and mind.flow in flows)
