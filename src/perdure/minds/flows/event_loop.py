"""What a flow has scheduled on its event loop: callbacks that are about to run, and timers.

Outcomes reach a flow one at a time, and the next one only when every task of the flow waits. So the mind has to know
whether anything of the flow is about to run. asyncio has no public way to ask. Every callback and every timer has the
context of the code that scheduled it, and the context of a flow has a branch of that flow. The loops of asyncio show
their callbacks; for another loop (uvloop) the only way is to let it turn until nothing has happened for some turns.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from typing import Any

from perdure.minds.flows.hidden_timers import refuse_deadlines

_QUIET_TURNS = 12
"""How many turns of a loop that does not show its callbacks must pass without a request of the flow."""
_MOST_TURNS, _PATIENCE_S = 1_000, 0.05
"""A flow that does not rest for so many turns, and so long, polls for something."""
_BLOCKED_S = 0.01
_REPEATED = "_deliver_cancellation"
"""anyio repeats this callback in every turn of the loop until the cancelled task has ended."""


class FlowCallbacks:
    """The callbacks and timers of one flow on the event loop that runs now; `is_of_flow` knows the flow's contexts."""

    def __init__(self, is_of_flow: Callable[[Context], bool]) -> None:
        self._loop: Any = asyncio.get_running_loop()
        self._is_of_flow = is_of_flow
        self.shows_timers = hasattr(self._loop, "_ready") and hasattr(self._loop, "_scheduled")
        self._end_refusal = None if self.shows_timers else refuse_deadlines(self._loop, self._is_of_flow_now)
        self._activity = 0
        self._timers_seen = 0
        self._dates: dict[int, tuple[Any, float]] = {}
        """When timers of a flow that is run again would have fired in the first run, in seconds."""

    def note_activity(self) -> None:
        """Note that the flow did something."""
        self._activity += 1

    def close(self) -> None:
        """Leave the event loop as it was; the flow has ended."""
        if self._end_refusal is not None:
            self._end_refusal()

    def _is_of_flow_now(self, context: Context | None) -> bool:
        return self._is_of_flow(copy_context() if context is None else context)

    def has_ready(self) -> bool:
        """Tell whether a callback of the flow is about to run, as it may be on a loop that does not show them."""
        if not self.shows_timers:
            return True
        return any(
            self._is_of_flow(handle._context)  # noqa: SLF001 (see the docstring of the module)
            for handle in self._loop._ready  # noqa: SLF001
            if not handle._cancelled and getattr(handle._callback, "__name__", "") != _REPEATED  # noqa: SLF001
        )

    async def rest(self) -> None:
        """Let the event loop turn until nothing of the flow is about to run, unless the flow never rests."""
        if self.shows_timers:
            turns, since_s = 0, self._loop.time()
            while self.has_ready() and (turns < _MOST_TURNS or self._loop.time() - since_s < _PATIENCE_S):
                await asyncio.sleep(0)
                turns += 1
            if self._loop.time() - since_s > _BLOCKED_S:
                await asyncio.sleep(0)  # the flow blocked its loop: a stop that was sent meanwhile comes first
            return
        quiet, seen = 0, self._activity
        while quiet < _QUIET_TURNS:
            await asyncio.sleep(0)
            quiet, seen = (quiet + 1 if self._activity == seen else 0), self._activity

    def next_timer_s(self) -> float | None:
        """Return in how many seconds the next timer of the flow fires; None when it has none."""
        whens = [handle.when() for handle in self._timers()]
        return max(min(whens) - self._loop.time(), 0.0) if whens else None

    def date_timers(self, now_us: int) -> None:
        """Note the timers that the flow has made since an event of the first run, which was at `now_us`.

        In the first run time passed between two events. Timers are fired in the order that they had there.
        """
        if not self.shows_timers or len(self._loop._scheduled) == self._timers_seen:  # noqa: SLF001
            return
        self._timers_seen = len(self._loop._scheduled)  # noqa: SLF001
        for timer in self._timers():
            if id(timer) not in self._dates:
                self._dates[id(timer)] = timer, now_us / 1e6 + timer.when() - self._loop.time()

    def fire_next_timer(self) -> bool:
        """Call the next timer of the flow now, as if its time had come; tell whether there was one.

        The loop shows the timer's own time while it is called, and a scope of anyio gets its deadline now.
        """
        timer = min(self._timers(), key=self._date, default=None)
        if timer is None:
            return False
        callback, args, context, when = timer._callback, timer._args, timer._context, timer.when()  # noqa: SLF001
        timer.cancel()
        scope = getattr(callback, "__self__", None)
        if hasattr(scope, "deadline"):  # of anyio, which compares it with the clock again when the scope is left
            context.run(setattr, scope, "deadline", self._loop.time())
            return True
        time = self._loop.time
        self._loop.time = lambda: max(when, time())
        try:
            context.run(callback, *args)
        finally:
            del self._loop.time
        return True

    def _date(self, timer: Any) -> float:
        return self._dates[id(timer)][1] if id(timer) in self._dates else math.inf

    def _timers(self) -> Iterator[Any]:
        if not self.shows_timers:
            return
        for handle in self._loop._scheduled:  # noqa: SLF001
            if not handle._cancelled and self._is_of_flow(handle._context):  # noqa: SLF001
                yield handle
