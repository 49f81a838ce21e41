"""The worker of a server: runs goals that nobody waits for at a terminal, and goes on with them when started anew."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from perdure.app.asked import require_same
from perdure.app.goals import Goals
from perdure.app.new_goal import NewGoal
from perdure.app.runner import Manner
from perdure.app.trouble import Trouble
from perdure.app.views import GoalView
from perdure.errors import Conflict, Exhausted, PerdureError, Unavailable
from perdure.kernel.events import Limits
from perdure.kernel.loop import Loop, Ran
from perdure.kernel.ports import Clock, IdempotencyKeys, Once, OwnerSilent

LOOK_S = 0.5
MOST_RUNNING = 64
_PAGE = 200
_MOMENT_S = 2.0
_PATIENCE_S = 60.0
"""A goal that could not be gone on with is tried again after this, or when something has happened to it."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Failed:
    last_seq: int
    until_s: float


class Serving:
    """The goals that a server runs: those that were started or resumed through it, and none of a terminal's.

    Every goal is durable before `start` returns. What is left when the process ends, however it ends, the next server
    on the same home goes on with.
    """

    def __init__(self, goals: Goals, keys: IdempotencyKeys, clock: Clock, *, most: int = MOST_RUNNING) -> None:
        self._goals = goals
        self._keys = keys
        self._clock = clock
        self.most = most
        self._running: dict[asyncio.Task[Ran], Loop | None] = {}
        self._ids: dict[asyncio.Task[Ran], str] = {}
        self._failed: dict[str, _Failed] = {}
        self._nudged = asyncio.Event()
        self._hurried = asyncio.Event()
        self._is_closing = False
        self.cut_short = 0
        """How many goals had a step that was ended, because it took too long, when this was closed."""
        self._trouble = Trouble(log, "a look for goals")

    async def start(self, new: NewGoal) -> GoalView:
        """Start a goal, and return it as soon as it is durable; with a key that was used, the goal that it started.

        Raises: Invalid; Conflict when the key started something else; Exhausted when too many goals run.
        """
        if new.key is not None and (known := await self._goals.started(new)) is not None:
            return known
        self._require_room()
        try:
            return await self._begun("", lambda manner: self._goals.start(new, manner))
        except Conflict:
            known = None if new.key is None else await self._goals.started(new)
            if known is None:
                raise
            return known

    async def go_on(self, prefix: str, limits: Limits | None = None, *, once: Once | None = None) -> GoalView:
        """Go on with a goal here, whoever ran it before, and return it as soon as it is ours.

        The same call, named by its key, goes on once: then the goal is returned as it is.

        Raises: NotFound; Conflict when another live worker runs it, or the key was used for another call; Invalid when
        a limit is not above what was used; Exhausted when too many goals run.
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

    async def _gone_on(self, goal: GoalView, limits: Limits | None) -> GoalView:
        if goal.status in ("done", "stopped") or goal.id in self._ids.values():
            return goal
        self._require_room()
        return await self._begun(goal.id, lambda manner: self._goals.go_on(goal.id, manner, limits))

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
        for loop in self._running.values():
            if loop is not None:
                loop.stop()
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

    def _require_room(self) -> None:
        if self._is_closing:
            raise Exhausted("The server is about to end, and begins no more goals.")
        if len(self._running) >= self.most:
            raise Exhausted(f"{len(self._running)} goals run here already, which is the most. Try again later.")

    async def _take_up(self) -> None:
        """Begin all goals of a server that can go on and that nobody runs."""
        async for goal in self._goals.each_due(runner="server"):
            await self._try(goal, is_woken=True)
        before = None
        while page := await self._goals.list(status="open", runner="server", limit=_PAGE, before=before):
            for goal in page:
                await self._try(goal)
            before = page[-1].id

    async def _try(self, goal: GoalView, *, is_woken: bool = False) -> None:
        is_full = len(self._running) >= self.most or self._is_closing
        if goal.is_running or goal.id in self._ids.values() or is_full or self._is_hopeless(goal):
            return
        try:
            await self._begun(goal.id, lambda manner: self._goals.go_on(goal.id, manner), is_woken=is_woken)
        except OwnerSilent:
            return  # each poll observes the owner; one of the next ones claims the goal, or sees it running
        except PerdureError as error:
            self._note_failure(goal.id, goal.summary.last_seq, error)

    def _is_hopeless(self, goal: GoalView) -> bool:
        failed = self._failed.get(goal.id)
        if failed is None:
            return False
        if failed.last_seq == goal.summary.last_seq and self._clock.boottime_s() < failed.until_s:
            return True
        del self._failed[goal.id]
        return False

    async def _begun(
        self, goal_id: str, begin: Callable[[Manner], Awaitable[Ran]], *, is_woken: bool = False
    ) -> GoalView:
        """Run a goal in a task of its own, and return as soon as it is ours and durable.

        Raises: whatever keeps it from that.
        """
        begun: asyncio.Future[Loop] = asyncio.get_running_loop().create_future()

        def watch(loop: Loop) -> None:
            self._running[task] = loop
            self._ids[task] = loop.journal.goal_id
            if self._is_closing:
                loop.stop()
            if goal_id:
                begun.set_result(loop)
            else:
                loop.journal.listen(lambda _events, _state: None if begun.done() else begun.set_result(loop))

        manner = Manner(watch=watch, is_woken=is_woken, runner="server", tell=None)
        task = asyncio.ensure_future(begin(manner))
        self._running[task] = None
        self._ids[task] = goal_id
        task.add_done_callback(self._ended)
        either: set[asyncio.Future[Any]] = {task, begun}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if begun.done():
            return GoalView.of_state(begun.result().state, is_running=not task.done())
        return GoalView.of_state(task.result().state)

    def _ended(self, task: "asyncio.Task[Ran]") -> None:
        """Forget a task, and log what nobody else hears; what has failed is not tried again at once."""
        loop = self._running.pop(task)
        goal_id = self._ids.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self.nudge()
            return
        if loop is not None:
            self._note_failure(goal_id, loop.state.tip.seq, error)

    def _note_failure(self, goal_id: str, last_seq: int, error: BaseException) -> None:
        """Leave a goal alone for a while that could not go on; for a moment, when something outside was in the way."""
        log.warning("%s was given up here: %s", goal_id, error)
        patience_s = _MOMENT_S if isinstance(error, Unavailable) else _PATIENCE_S
        self._failed[goal_id] = _Failed(last_seq, self._clock.boottime_s() + patience_s)
