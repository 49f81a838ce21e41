"""The timers of a flow: deadlines of asyncio and anyio, and sleeps that are not steps.

**Firing.** The event loop does not call an expired timer of a flow. The mind calls it when all tasks of the flow wait,
one timer at a time, as it delivers an outcome; then it is recorded (`fired_timers`). So a timer fires between the same
outcomes in every run, and what follows from it is the same.

**Identity.** A recorded timer is found again by its branch, its kind, and its position among the live timers of that
branch and kind, in the order in which the flow made them. A flow that has received the same outcomes has made and
cancelled the same timers.

**Interception.** While a flow lives, `call_at` of its event loop is replaced: it is the one method by which asyncio and
anyio make timers. The context of the caller tells which flow makes a timer, if any; a step has none.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any

from perdure.minds.flow.requests import BRANCH

_HOOK = "_perdure_timers"
_SLEEP = "_set_result_unless_cancelled"
"""The callback of `asyncio.sleep`."""
_FEWEST_KEPT = 32
_ONE_MOMENT_US = 1_000
"""Timers whose dates differ by less fired in one turn of the loop, in a history that does not record them."""


@dataclass(slots=True, eq=False)
class Timer:
    """A timer of a flow, until it is fired or cancelled."""

    branch: str
    is_sleep: bool
    seconds: float
    date_us: int
    """When it would have fired in the first run, if it was made directly after the last outcome that was delivered."""
    callback: Callable[..., Any]
    args: tuple[Any, ...]
    context: Context
    handle: asyncio.TimerHandle = field(init=False)
    is_due: bool = False


class _Hook:
    """Replaces `call_at` of an event loop, for all flows that live there."""

    def __init__(self, loop: Any) -> None:
        self.call_at = loop.call_at
        self.flows: dict[int, FlowTimers] = {}

    def make(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See asyncio.AbstractEventLoop.call_at."""
        branch = BRANCH.get() if context is None else context.get(BRANCH)
        timers = None if branch is None else self.flows.get(id(branch.owner))
        if branch is None or timers is None:
            handle: asyncio.TimerHandle = self.call_at(when, callback, *args, context=context)
            return handle
        of_flow = copy_context() if context is None else context
        timer = timers.new(branch.name, when, callback, args, of_flow)
        timer.handle = self.call_at(when, timers.expire, timer, context=Context())
        return timer.handle


class FlowTimers:
    """The timers of one run of a flow; `owner` is its mind, as in its branches."""

    def __init__(
        self, owner: object, reached_us: Callable[[], int], on_expiry: Callable[[], None], *, is_shown: bool
    ) -> None:
        self._loop: Any = asyncio.get_running_loop()
        self._owner = owner
        self._reached_us = reached_us
        self._on_expiry = on_expiry
        self._live: list[Timer] = []
        self._most = _FEWEST_KEPT
        self._due: list[Timer] = []
        self._is_released = False
        self._hook: _Hook | None = None
        if is_shown:
            self._hook = self._loop.__dict__.get(_HOOK) or self._install()
            self._hook.flows[id(owner)] = self

    def _install(self) -> _Hook:
        hook = _Hook(self._loop)
        setattr(self._loop, _HOOK, hook)
        self._loop.call_at = hook.make
        return hook

    def release(self) -> None:
        """Let the event loop call the timers from now on: the function is unwound, and nothing is recorded."""
        self._is_released = True
        due, self._due = self._due, []
        for timer in due:
            if not timer.handle.cancelled():
                self._loop.call_soon(timer.callback, *timer.args, context=timer.context)

    def close(self) -> None:
        """Restore the event loop after the end of the flow."""
        self.release()
        hook, self._hook = self._hook, None
        if hook is None:
            return
        hook.flows.pop(id(self._owner), None)
        if not hook.flows and self._loop.__dict__.get("call_at") == hook.make:
            delattr(self._loop, _HOOK)
            del self._loop.call_at

    def new(
        self, branch: str, when: float, callback: Callable[..., Any], args: tuple[Any, ...], context: Context
    ) -> Timer:
        """Return a new timer of the flow, without its handle. See asyncio.AbstractEventLoop.call_at."""
        seconds = when - self._loop.time()
        date_us = self._reached_us() + round(seconds * 1e6)
        is_sleep = getattr(callback, "__name__", "") == _SLEEP
        timer = Timer(branch, is_sleep, seconds, date_us, callback, args, context)
        if len(self._live) >= self._most:
            self._most = max(2 * len(self._pruned()), _FEWEST_KEPT)
        self._live.append(timer)
        return timer

    def expire(self, timer: Timer) -> None:
        """Keep an expired timer for the mind."""
        if self._is_released:
            timer.context.run(timer.callback, *timer.args)
            return
        timer.is_due = True
        self._due.append(timer)
        self._on_expiry()

    def _pruned(self) -> list[Timer]:
        self._live = [timer for timer in self._live if not timer.handle.cancelled()]
        return self._live

    @property
    def has_due(self) -> bool:
        """Whether a timer has expired and was not fired."""
        return bool(self._due)

    def next_due(self) -> Timer | None:
        """Return the first timer that has expired, and was neither cancelled nor fired."""
        while self._due:
            if not self._due[0].handle.cancelled():
                return self._due[0]
            del self._due[0]
        return None

    def next_s(self) -> float | None:
        """Return the seconds until the next timer expires; None without timers."""
        if not self._live:
            return None
        whens = [timer.handle.when() for timer in self._pruned()]
        return max(min(whens) - self._loop.time(), 0.0) if whens else None

    def position_of(self, timer: Timer) -> int:
        """Return the position of a timer among the live ones of its branch and kind."""
        return self._alike(timer.branch, is_sleep=timer.is_sleep).index(timer)

    def find(self, branch: str, position: int, *, is_sleep: bool) -> Timer | None:
        """Return the live timer at a position among those of a branch and kind."""
        alike = self._alike(branch, is_sleep=is_sleep)
        return alike[position] if position < len(alike) else None

    def _alike(self, branch: str, *, is_sleep: bool) -> list[Timer]:
        return [timer for timer in self._pruned() if timer.branch == branch and timer.is_sleep == is_sleep]

    def earliest(self, *, of_all: bool) -> list[Timer]:
        """Return the timers to fire next in a replay that is stuck, in the order of their dates in the first run.

        A sleep is not waited for again. A deadline is only fired after it has expired, unless `of_all`: in a history
        without fired timers, it may have fired in the first run.
        """
        timers = [timer for timer in self._pruned() if of_all or timer.is_sleep or timer.is_due]
        timers.sort(key=lambda timer: (timer.date_us, timer.handle.when()))
        if not of_all:
            return timers[:1]
        return [timer for timer in timers if timer.date_us <= timers[0].date_us + _ONE_MOMENT_US]

    def fire(self, timers: Iterable[Timer]) -> None:
        """Call timers now, unless one before has cancelled them."""
        for timer in timers:
            if timer.handle.cancelled():
                continue
            when = timer.handle.when()
            timer.handle.cancel()
            if timer.is_due:
                self._due.remove(timer)
                self._call(timer)
            else:
                self._call_early(timer, when)

    def _call_early(self, timer: Timer, when: float) -> None:
        """Call a timer before its time. Meanwhile the loop returns at least the timer's time."""
        scope = getattr(timer.callback, "__self__", None)
        if hasattr(scope, "deadline"):  # of anyio, which compares it with the clock again at the end of the scope
            timer.context.run(setattr, scope, "deadline", self._loop.time())
            return
        time = self._loop.time
        self._loop.time = lambda: max(when, time())
        try:
            self._call(timer)
        finally:
            del self._loop.time

    def _call(self, timer: Timer) -> None:
        """Call a timer as the event loop does, which also handles its exceptions."""
        asyncio.Handle(timer.callback, timer.args, self._loop, timer.context)._run()  # noqa: SLF001
