"""Rejects deadlines of asyncio in flows on an event loop that does not show its timers (uvloop).

Such a deadline could not be fired in a replay, and a goal would be parked before the deadline.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

from perdure.errors import Invalid

_LAYERS = "_perdure_flows"
_ADVICE = (
    "This event loop does not show its timers, so asyncio.timeout, asyncio.wait_for and deadlines of anyio cannot be"
    " repeated in a replay of the flow. Use `async with goal.timeout(seconds)`, or timeout_s of a step, goal.ask or"
    " goal.signal."
)
_ALLOWED = frozenset({"_set_result_unless_cancelled"})
"""The callback of asyncio.sleep, which is not a deadline: a replayed flow sleeps again."""


def refuse_deadlines(loop: Any, is_of_flow: Callable[[Context | None], bool]) -> Callable[[], None]:
    """Raise Invalid for timers of a flow on a loop, except sleeps; return a function that ends this.

    All flows on the loop share one wrapper of `call_at` and `call_later`; timers of other code are not affected.
    """
    layers: list[Callable[[Context | None], bool]] = loop.__dict__.setdefault(_LAYERS, [])
    layers.append(is_of_flow)
    if len(layers) == 1:
        loop.call_at = _guarded(loop.call_at, layers)
        loop.call_later = _guarded(loop.call_later, layers)

    def end() -> None:
        if is_of_flow in layers:
            layers.remove(is_of_flow)
        if not layers and loop.__dict__.pop(_LAYERS, None) is not None:
            del loop.call_at, loop.call_later

    return end


def _guarded(schedule: Callable[..., Any], layers: list[Callable[[Context | None], bool]]) -> Callable[..., Any]:
    def guarded(
        when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        is_sleep = getattr(callback, "__name__", "") in _ALLOWED
        if not is_sleep and any(is_of_flow(context) for is_of_flow in layers):
            raise Invalid(_ADVICE)
        handle: asyncio.TimerHandle = schedule(when, callback, *args, context=context)
        return handle

    return guarded
