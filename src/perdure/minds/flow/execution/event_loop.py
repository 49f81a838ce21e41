"""The callbacks and timers that a flow has scheduled on its event loop.

A flow receives the next outcome only when all its tasks wait. So the mind must know whether a callback of the flow is
ready to run, and asyncio has no public API for that. Every callback and timer has the context of the code that
scheduled it, and the context of a flow has a branch of that flow. The loops of asyncio have private lists of their
callbacks. For other loops (uvloop), the only way is to let the loop turn until the flow was inactive for some turns.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from typing import Any

from perdure.minds.flow.execution.hidden_timers import refuse_deadlines
from perdure.minds.flow.execution.timer_order import TimerPlan

_QUIET_TURNS = 12
"""The number of inactive turns after which a flow counts as waiting, on a loop that does not show its callbacks."""
_MOST_TURNS, _PATIENCE_S = 1_000, 0.05
"""A flow that stays active for this number of turns, and this time in seconds, counts as polling."""
_CANCELLING_TURNS = 25
"""anyio cancels a flow in every turn of the loop, and task groups of asyncio wake up in every turn then. Such a flow
rests when it has neither made nor cancelled a request for this number of turns."""
_BLOCKED_S = 0.01
_ONE_MOMENT_S = 0.001
"""Timers whose times differ by less are assumed to have fired in one turn of the loop."""
_REPEATED = "_deliver_cancellation"
"""anyio repeats this callback in every turn of the loop until the cancelled task has ended."""


class FlowCallbacks:
    """The callbacks and timers of one flow on the running event loop; `is_of_flow` recognizes its contexts."""

    def __init__(self, is_of_flow: Callable[[Context], bool], plan: TimerPlan | None = None) -> None:
        self._loop: Any = asyncio.get_running_loop()
        self._is_of_flow = is_of_flow
        self._plan = TimerPlan() if plan is None else plan
        self.has_dated = False
        """Whether the flow had a timer, so that another order of timers may lead it elsewhere."""
        self.shows_timers = hasattr(self._loop, "_ready") and hasattr(self._loop, "_scheduled")
        self._end_refusal = None if self.shows_timers else refuse_deadlines(self._loop, self._is_of_flow_now)
        self._activity = 0
        self._dates: dict[int, tuple[Any, float]] = {}
        """When the timers of a replayed flow would have fired in the first run, in seconds."""
        self._point: tuple[int, frozenset[int]] | None = None
        self._is_before = False
        """The last result of `is_timer_before`, and the event and timers it was for."""

    def note_activity(self) -> None:
        """Record that the flow did something."""
        self._activity += 1

    def close(self) -> None:
        """Restore the event loop after the end of the flow."""
        if self._end_refusal is not None:
            self._end_refusal()

    def _is_of_flow_now(self, context: Context | None) -> bool:
        return self._is_of_flow(copy_context() if context is None else context)

    def has_ready(self) -> bool:
        """Return whether a callback of the flow is ready to run; True on a loop that does not show its callbacks."""
        if not self.shows_timers:
            return True
        for handle in self._loop._ready.copy():  # noqa: SLF001 (other threads append to it, see the module)
            is_own = not handle._cancelled and self._is_of_flow(handle._context)  # noqa: SLF001
            if is_own and getattr(handle._callback, "__name__", "") != _REPEATED:  # noqa: SLF001
                self.has_dated = self.has_dated or isinstance(handle, asyncio.TimerHandle)
                return True
        return False

    def _is_being_cancelled(self) -> bool:
        """Return whether anyio repeats a cancel of the flow."""
        return any(
            getattr(handle._callback, "__name__", "") == _REPEATED and self._is_of_flow(handle._context)  # noqa: SLF001
            for handle in self._loop._ready.copy()  # noqa: SLF001
            if not handle._cancelled  # noqa: SLF001
        )

    async def rest(self) -> None:
        """Let the event loop turn until no callback of the flow is ready to run, unless the flow never rests."""
        if self.shows_timers:
            await self._turn_until_rest()
            return
        quiet, seen = 0, self._activity
        while quiet < _QUIET_TURNS:
            await asyncio.sleep(0)
            quiet, seen = (quiet + 1 if self._activity == seen else 0), self._activity

    async def _turn_until_rest(self) -> None:
        turns, since_s, quiet, seen = 0, self._loop.time(), 0, self._activity
        has_let_others_run = False
        while turns < _MOST_TURNS or self._loop.time() - since_s < _PATIENCE_S:
            if quiet >= _CANCELLING_TURNS if self._is_being_cancelled() else not self.has_ready():
                if has_let_others_run or self._loop.time() - since_s <= _BLOCKED_S:
                    return
                has_let_others_run = True  # the flow blocked its loop: handle a stop that was sent meanwhile first
            await asyncio.sleep(0)  # a timer of the flow may fire in any turn, so check again after each
            turns += 1
            quiet, seen = (quiet + 1 if self._activity == seen else 0), self._activity

    async def let_others_rest(self) -> None:
        """Let the other tasks of the flow run until each of them waits; called by its body."""
        await asyncio.sleep(0)
        for _ in range(_MOST_TURNS if self.shows_timers else _QUIET_TURNS):
            if not self.has_ready():
                return
            await asyncio.sleep(0)

    def waiting_tasks(self) -> "list[asyncio.Task[Any]]":
        """Return the waiting tasks of the flow."""
        return [task for task in asyncio.all_tasks() if any(map(self._is_of_flow, _contexts_of(task)))]

    def next_timer_s(self) -> float | None:
        """Return the seconds until the next timer of the flow; None without timers."""
        whens = [handle.when() for handle in self._timers()]
        return max(min(whens) - self._loop.time(), 0.0) if whens else None

    def date_timers(self, now_us: int) -> None:
        """Assign dates of the first run to new timers, created after its event at `now_us`.

        In the first run, time passed between two events. Timers are fired in the order of their dates there.
        """
        if self.shows_timers and not self._loop._scheduled:  # noqa: SLF001 (most flows have none at most outcomes)
            return
        loop_s = self._loop.time()  # once, so that the order of timers that were made together is kept
        for timer in self._timers():
            if id(timer) not in self._dates:
                self.has_dated = True
                self._dates[id(timer)] = timer, now_us / 1e6 + timer.when() - loop_s

    def fire_next_timers(self) -> int | None:
        """Fire the next timers of the flow now; return their date in the first run, None without a timer.

        All timers must have a date: see `date_timers`. Timers of one moment fire together, as in one turn of the loop,
        unless the plan chooses otherwise.
        """
        timers = sorted(self._timers(), key=lambda timer: (self._date(timer), timer.when()))
        if not timers:
            return None
        chosen = self._choose(timers)
        fired_s = self._dates[id(chosen[0])][1]
        for timer in chosen:
            if not timer.cancelled():
                self._fire(timer)
        return round(fired_s * 1e6)

    def _choose(self, timers: list[Any]) -> list[Any]:
        """Return the timers to fire now, given all in their order: those of one moment, or others by the plan.

        The other options do not depend on the load of the machine: the first few together, or a later one alone.
        """
        if len(timers) == 1:
            return timers
        latest_s = self._date(timers[0]) + _ONE_MOMENT_S
        of_one_moment = [timer for timer in timers if self._date(timer) <= latest_s]
        first_few = [timers[:count] for count in range(1, len(timers) + 1)]
        options = [of_one_moment, *first_few, *([timer] for timer in timers[1:])]
        return options[self._plan.choose(len(options))]

    def _fire(self, timer: Any) -> None:
        """Call a timer; a scope of anyio gets a new deadline. Meanwhile the loop returns at least the timer's time."""
        callback, args, context, when = timer._callback, timer._args, timer._context, timer.when()  # noqa: SLF001
        timer.cancel()
        scope = getattr(callback, "__self__", None)
        if hasattr(scope, "deadline"):  # of anyio, which compares it with the clock again at the end of the scope
            context.run(setattr, scope, "deadline", self._loop.time())
            return
        time = self._loop.time
        self._loop.time = lambda: max(when, time())
        try:
            context.run(callback, *args)
        finally:
            del self._loop.time

    def is_timer_before(self, seq: int, event_us: int, now_us: int) -> bool:
        """Return whether a timer must be fired before an event, although the flow is not stuck.

        The plan decides once per event and set of timers.
        """
        if self._plan.order == "passed":
            return False
        self.date_timers(now_us)
        timers = list(self._timers())
        if not timers:
            return False
        point = seq, frozenset(map(id, timers))
        if point != self._point:
            is_earlier = any(self._date(timer) < event_us / 1e6 for timer in timers)
            is_by_order = self._plan.order == "eager" and is_earlier
            self._point, self._is_before = point, is_by_order != bool(self._plan.choose(2))
        return self._is_before

    def _date(self, timer: Any) -> float:
        date_s = self._dates[id(timer)][1]
        return float(timer.when()) if self._plan.order == "restarted" else date_s

    def _timers(self) -> Iterator[Any]:
        if not self.shows_timers:
            return
        for handle in self._loop._scheduled:  # noqa: SLF001
            if not handle._cancelled and self._is_of_flow(handle._context):  # noqa: SLF001
                yield handle


def _contexts_of(task: "asyncio.Task[Any]") -> list[Context]:
    """Return the context of a waiting task; in Python 3.11, only the callback that wakes the task has it."""
    awaited = getattr(task, "_fut_waiter", None)  # private: asyncio has no public API for it
    callbacks = getattr(awaited, "_callbacks", None) or ()
    return [context for callback, context in callbacks if getattr(callback, "__self__", None) is task]
