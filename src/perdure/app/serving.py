"""The worker of a server: runs goals that nobody waits for at a terminal, and goes on with them when started anew."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perdure.app.asked import require_same
from perdure.app.flow_threads import Apart
from perdure.app.goals import Goals
from perdure.app.new_goal import NewGoal
from perdure.app.runner import Manner, Reopening
from perdure.app.trouble import Trouble
from perdure.app.views import GoalView
from perdure.errors import Conflict, Exhausted, PerdureError, Unavailable
from perdure.kernel.events import Event, Limits
from perdure.kernel.fold import GoalState
from perdure.kernel.holding import is_held
from perdure.kernel.loop import Loop, Ran
from perdure.kernel.ports import Clock, IdempotencyKeys, Once, Owned

LOOK_S = 0.5
MOST_RUNNING = 64
MOST_QUEUED = 10_000
_MOST_PAGES = 5
"""So many pages of the queue are read in one look; the next look continues behind them."""
_MOST_DUE = 1_000
"""How many due goals of a queue are read in one look."""
_BEGIN_S = 20.0
"""So long a caller waits until a goal has begun: code of a flow may block before that."""
_OWNED_S = 1.0
_MOMENT_S = 2.0
_PATIENCE_S = 60.0
"""A goal that could not be gone on with is tried again after this, or when something has happened to it."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Failed:
    last_seq: int
    until_s: float


@dataclass
class _Run:
    """A goal that runs here, or is about to."""

    goal_id: str
    polled_seq: int | None = None
    """Its last seq when the worker took it by itself: then nobody else hears of a failure."""
    loop: Loop | None = None
    is_stored: bool = True
    """False for a new or reopened goal before its first commit: until then its caller gets the error."""


@dataclass(frozen=True)
class WakeCli:
    """Which goals of the command line a server wakes when they are due: commands, plans, and these flows."""

    flows: frozenset[str] = frozenset()
    """As `module:function`."""


class Serving:
    """The goals that a server runs: those that were started or resumed through it.

    Of the goals of the command line it runs only those that sleep, are due and have no live worker; with `wakes`.
    Every goal is durable before `start` returns. What is left when the process ends, however it ends, the next server
    on the same home goes on with. Goals beyond those that run at once wait in the queue, which is the store itself:
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
        self._goals = goals
        self._wakes = wakes
        self._keys = keys
        self._clock = clock
        self.most = most
        self.most_queued = MOST_QUEUED
        self.apart = Apart()
        """Where code of users is called that belongs to no goal yet."""
        self._running: dict[asyncio.Task[Ran], _Run] = {}
        self._failed: dict[str, _Failed] = {}
        self._being_queued = 0
        """How many goals were admitted to the queue and are not stored yet."""
        self._ever_admitted = 0
        self._has_queue = False
        """Whether goals wait, as far as is known here: then a new one may not overtake them."""
        self._place: str | None = None
        """The goal behind which the next look at the queue begins; None for the oldest."""
        self._due_places: dict[str, GoalView | None] = {}
        """The goal of each queue behind which the next look at due goals begins; None for the longest due."""
        self._nudged = asyncio.Event()
        self._hurried = asyncio.Event()
        self._is_closing = False
        self.cut_short = 0
        """How many goals had a step that was ended, because it took too long, when this was closed."""
        self._trouble = Trouble(log, "a look for goals")

    async def start(self, new: NewGoal) -> GoalView:
        """Start a goal, and return it as soon as it is durable; with a key that was used, the goal that it started.

        When as many goals run as may, it is queued, and runs when those before it have got their turn.

        Raises: Invalid; Conflict when the key started something else; Exhausted when too many goals are queued.
        """
        if new.key is not None and (known := await self._goals.started(new)) is not None:
            return known
        try:
            if self._must_queue():
                return await self._queue(lambda: self._goals.enqueue(new))
            return await self._begun(_Run("", is_stored=False), lambda manner: self._goals.begin(new, manner))
        except Conflict:
            known = None if new.key is None else await self._goals.started(new)
            if known is None:
                raise
            return known

    async def go_on(self, prefix: str, limits: Limits | None = None, *, once: Once | None = None) -> GoalView:
        """Go on with a goal here, whoever ran it before, and return it as soon as it is ours, or queued.

        The same call, named by its key, goes on once: then the goal is returned as it is.

        Raises: NotFound; Conflict when another live worker runs it, or the key was used for another call; Invalid when
        a limit is not above what was used; Exhausted when too many goals are queued.
        """
        goal = await self._goals.get(prefix)
        if once is not None:
            known = await self._keys.find(once.key)
            if known is not None:
                require_same(once, known)
                return goal
        gone_on = await self._gone_on(goal, limits)
        if once is not None:  # after it: whoever is killed in between goes on again, which does no harm
            require_same(once, await self._keys.keep(replace(once, subject=goal.id)))
        return gone_on

    async def retry(self, goal_id: str, again: Reopening) -> GoalView:
        """Retry a failed goal here, and return it as soon as it is reopened; see Goals.retry.

        Raises: NotFound; Conflict; Invalid; Exhausted when too many goals are queued.
        """
        goal = await self._goals.get(goal_id)
        if self._must_queue():
            return await self._queue(lambda: self._goals.enqueue_reopened(goal.id, again))
        return await self._begun(
            _Run(goal.id, is_stored=False),
            lambda manner: self._goals.reopen(goal.id, manner, reason=again.reason, limits=again.limits, key=again.key),
        )

    async def _gone_on(self, goal: GoalView, limits: Limits | None) -> GoalView:
        if goal.is_final or self._runs(goal.id):
            return goal
        if self._must_queue():
            return await self._queue_again(goal, limits or Limits())
        return await self._begun(_Run(goal.id), lambda manner: self._goals.go_on(goal.id, manner, limits))

    async def _queue_again(self, goal: GoalView, limits: Limits) -> GoalView:
        """Queue a goal; one that is queued already needs no further place."""
        if not goal.is_queued:
            return await self._queue(lambda: self._goals.enqueue_again(goal.id, limits))
        return goal if limits == Limits() else await self._goals.enqueue_again(goal.id, limits)

    @property
    def is_busy(self) -> bool:
        """Whether a goal runs here now."""
        return bool(self._running)

    def nudge(self) -> None:
        """Look for goals to go on with, now."""
        self._nudged.set()

    async def run(self) -> None:
        """Go on with what a server before us has left, and with whatever can go on, until we are closed."""
        while not self._is_closing:
            try:
                await self._take_up()
            except PerdureError as error:
                self._trouble.met(error.detail)
            else:
                self._trouble.over()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._nudged.wait()
            self._nudged.clear()

    async def close(self, patience_s: float = 10.0) -> None:
        """Begin nothing new, let each step that runs finish for a while, or until `hurry`, and give all goals back."""
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
        """Let `close` wait for no step any more."""
        self._hurried.set()

    def _must_queue(self) -> bool:
        """Tell whether a goal has to wait for its turn.

        Raises: Exhausted when the server is about to end.
        """
        if self._is_closing:
            raise Exhausted("The server is about to end, and begins no more goals.")
        return self._has_queue or self._free <= 0

    @property
    def _free(self) -> int:
        return 0 if self._is_closing else self.most - len(self._running)

    def _runs(self, goal_id: str) -> bool:
        return any(run.goal_id == goal_id for run in self._running.values())

    async def _queue(self, store: Callable[[], Awaitable[GoalView]]) -> GoalView:
        """Store a goal that waits for its turn.

        Raises: Exhausted when too many do already.
        """
        async with self._place_in_queue():
            goal = await store()
        self._has_queue = True
        self.nudge()
        return goal

    @contextlib.asynccontextmanager
    async def _place_in_queue(self) -> AsyncIterator[None]:
        """Reserve a place in the queue for the time of the block.

        The count may miss goals that were being stored when it began, and all that were admitted since. Both are added,
        so concurrent starts never exceed the limit; at worst a goal that was stored just now is counted twice. Goals
        that another server is storing at this moment are not known here.

        Raises: Exhausted when the queue is full.
        """
        in_flight, admitted = self._being_queued, self._ever_admitted
        queued = await self._goals.count_queued(queue="server")
        queued += in_flight + self._ever_admitted - admitted
        if queued >= self.most_queued:
            raise Exhausted(f"{queued} goals are queued already; at most {self.most_queued} may be. Try again later.")
        self._being_queued += 1
        self._ever_admitted += 1
        try:
            yield
        finally:
            self._being_queued -= 1

    async def _take_up(self) -> None:
        """Begin goals that can go on and that nobody runs, the oldest first, while there is room.

        Nothing waits here for a goal that begins: the code of one may block.
        """
        if (free := self._free) <= 0:
            return
        due = {goal.id: goal for goal in [*await self._due("server", free), *await self._due_of_cli(free)]}
        queued = {goal.id: goal for goal in await self._queued(free + 1)}
        waiting = sorted((queued | due).values(), key=lambda goal: goal.summary.created_us)
        free = max(self._free, 0)  # a goal may have been started meanwhile
        self._has_queue = len(waiting) > free
        for goal in waiting[:free]:
            if goal.summary.queue == "cli":
                log.info("%s is woken: it is due since %s", goal.id, goal.due_at)
            self._take(goal, is_woken=goal.id in due)

    def _take(self, goal: GoalView, *, is_woken: bool) -> None:
        self._begin(
            _Run(goal.id, goal.summary.last_seq),
            lambda manner: self._goals.go_on(goal.id, replace(manner, is_woken=is_woken, is_automatic=True)),
            lambda _goal: None,
        )

    async def _due(self, queue: str, most: int) -> Sequence[GoalView]:
        """Return due goals of a queue that can be tried; a look reads a part of a long list, the next one continues."""
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

    async def _due_of_cli(self, most: int) -> Sequence[GoalView]:
        """Return goals of the command line that are due and may be woken here.

        `is_running` is checked first: a goal that sleeps in a terminal has a live worker, and is left to it.
        """
        if self._wakes is None:
            return ()
        found = [goal for goal in await self._due("cli", most) if not goal.is_running]
        return [goal for goal in found if await self._may_wake(goal, self._wakes)]

    async def _may_wake(self, goal: GoalView, wakes: WakeCli) -> bool:
        """Tell whether the server may run a goal of the command line; one that it may not is left alone for a while.

        Which function a flow is stands in its first event. A history that cannot be read holds up no other goal.
        """
        if goal.summary.mind in ("command", "plan"):
            return True
        if goal.summary.mind == "flow" and wakes.flows:
            try:
                is_named = (await self._goals.begun(goal.id)).mind.at in wakes.flows
            except PerdureError as error:
                log.warning("%s cannot be woken: %s", goal.id, error.detail)
            else:
                if is_named:
                    return True
        self._leave_alone(goal.id, goal.summary.last_seq, _PATIENCE_S)
        return False

    async def _queued(self, most: int) -> Sequence[GoalView]:
        """Return goals of the queue that can be tried; those that have failed here just now hold up no others."""
        found: list[GoalView] = []
        for _ in range(_MOST_PAGES):
            limit = most + len(self._running)
            page = await self._goals.unheld(queue="server", limit=limit, after=self._place)
            found += [goal for goal in page if self._can_be_tried(goal)]
            is_last = len(page) < limit
            self._place = None if is_last or len(found) >= most else page[-1].id
            if self._place is None:
                break
        return found

    def _can_be_tried(self, goal: GoalView) -> bool:
        is_elsewhere = goal.is_running and not self._goals.is_of_this_process(goal)
        return not (is_elsewhere or self._runs(goal.id) or self._is_hopeless(goal))

    def _is_hopeless(self, goal: GoalView) -> bool:
        failed = self._failed.get(goal.id)
        if failed is None:
            return False
        if failed.last_seq == goal.summary.last_seq and self._clock.boottime_s() < failed.until_s:
            return True
        del self._failed[goal.id]
        return False

    async def _begun(self, run: _Run, begin: Callable[[Manner], Awaitable[Ran]]) -> GoalView:
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
            return GoalView.of_state(task.result().state)
        if run.goal_id:
            return await self._goals.find(run.goal_id)
        task.cancel()
        raise Unavailable("The code of the flow blocks before the goal can be stored; nothing was started.")

    def _begin(
        self, run: _Run, begin: Callable[[Manner], Awaitable[Ran]], on_begun: Callable[[GoalView], object]
    ) -> "asyncio.Task[Ran]":
        """Run a goal in a task of its own; `on_begun` is called once, when it is ours and durable.

        It may be called on the thread of the goal's flow. What is committed later is not looked at.
        """

        def stored(_events: Sequence[Event], state: GoalState) -> None:
            if not run.is_stored:
                run.is_stored = True
                on_begun(GoalView.of_state(state))

        def watch(loop: Loop) -> None:
            run.loop, run.goal_id = loop, loop.journal.goal_id
            if self._is_closing:
                loop.stop()
            if run.is_stored:
                on_begun(GoalView.of_state(loop.state))
            else:
                loop.journal.listen(stored)

        task = asyncio.ensure_future(begin(Manner(watch=watch, queue="server", tell=None)))
        self._running[task] = run
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Ran]") -> None:
        """Forget a task, and log what nobody else hears; what has failed is not tried again at once."""
        run = self._running.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._forget_failure(run.goal_id, task.result().state)
            self.nudge()
        elif not run.is_stored:
            return  # for example a lost key race: its caller gets the error
        elif run.loop is not None:
            self._note_failure(run.goal_id, run.loop.state.tip.seq, error)
        elif run.polled_seq is not None:
            self._note_failure(run.goal_id, run.polled_seq, error)

    def _forget_failure(self, goal_id: str, state: GoalState) -> None:
        """Try a goal again as soon as it can run; one that stays on hold, when something was recorded or after a while.

        An approval stays in the inbox of a goal until it runs, so a goal on hold with one would be found at every look.
        """
        if is_held(state):
            self._leave_alone(goal_id, state.tip.seq, _PATIENCE_S)
        else:
            self._failed.pop(goal_id, None)

    def _leave_alone(self, goal_id: str, last_seq: int, patience_s: float) -> None:
        """Try a goal again after some seconds, or when something has happened to it."""
        self._failed[goal_id] = _Failed(last_seq, self._clock.boottime_s() + patience_s)

    def _note_failure(self, goal_id: str, last_seq: int, error: BaseException) -> None:
        """Leave a goal alone for a while that could not go on; for a moment, when something outside was in the way.

        That another worker has it is not a failure: it is tried at the next look, and only then a little later, so that
        goals that stay owned do not take the turn of others.
        """
        before = self._failed.get(goal_id)
        if isinstance(error, Owned):
            is_again = before is not None and before.last_seq == last_seq
            self._leave_alone(goal_id, last_seq, _OWNED_S if is_again else 0.0)
            return
        log.warning("%s was given up here: %s", goal_id, error)
        self._leave_alone(goal_id, last_seq, _MOMENT_S if isinstance(error, Unavailable) else _PATIENCE_S)
