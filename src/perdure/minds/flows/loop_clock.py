"""The time of the event loop as a flow sees it: ahead of others after a deadline was fired at once.

A flow that is run again does not wait for a deadline that had passed in the first run: its timer is fired at once. Code
that looks at the clock afterwards (anyio raises TimeoutError only when the deadline has passed) must find that it has.
So the clock of that flow is put ahead, and what it schedules from then on is put back by as much, because it runs by
the clock of the loop. Everything else on the loop sees the loop's own time.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass
class LoopClock:
    """How far the clock of one flow is ahead of its event loop, in seconds."""

    ahead_s: float = 0.0


CLOCK: ContextVar[LoopClock | None] = ContextVar("perdure_loop_clock", default=None)
"""The clock of the flow that runs."""


def show_flow_times(loop: Any) -> None:
    """Let an event loop show each flow the time of its own clock; nothing changes for what is no flow."""
    if "time" in vars(loop):
        return
    time: Callable[[], float] = loop.time
    call_at: Callable[..., Any] = loop.call_at

    def flow_time() -> float:
        clock = CLOCK.get()
        return time() if clock is None else time() + clock.ahead_s

    def flow_call_at(when: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        clock = CLOCK.get()
        return call_at(when if clock is None else when - clock.ahead_s, callback, *args, context=context)

    loop.time, loop.call_at = flow_time, flow_call_at
