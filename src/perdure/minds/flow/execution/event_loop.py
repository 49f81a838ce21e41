"""The callbacks that a flow has scheduled on its event loop.

A flow receives the next outcome only when all its tasks wait. So the mind must know whether a callback of the flow is
ready to run, and asyncio has no public API for that. Every callback has the context of the code that scheduled it, and
the context of a flow has a branch of that flow. The loops of asyncio have a private list of their callbacks. For other
loops (uvloop), the only way is to let the loop turn until the flow was inactive for some turns.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

from perdure.minds.flow.execution.timers.hidden_timers import refuse_deadlines

_QUIET_TURNS = 12
"""The number of inactive turns after which a flow counts as waiting, on a loop that does not show its callbacks."""
_MOST_TURNS, _PATIENCE_S = 1_000, 0.05
"""A flow that stays active for this number of turns, and this time in seconds, counts as polling."""
_CANCELLING_TURNS = 25
"""anyio cancels a flow in every turn of the loop, and task groups of asyncio wake up in every turn then. Such a flow
rests when it has neither made nor cancelled a request for this number of turns."""
_BLOCKED_S = 0.01
_REPEATED = "_deliver_cancellation"
"""anyio repeats this callback in every turn of the loop until the cancelled task has ended."""


class FlowCallbacks:
    """The callbacks of one flow on the running event loop; `is_of_flow` recognizes its contexts."""

    def __init__(self, is_of_flow: Callable[[Context], bool]) -> None:
        self._loop: Any = asyncio.get_running_loop()
        self._is_of_flow = is_of_flow
        self.shows_timers = hasattr(self._loop, "_ready") and hasattr(self._loop, "_scheduled")
        self._end_refusal = None if self.shows_timers else refuse_deadlines(self._loop, self._is_of_flow_now)
        self._activity = 0

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
                return True
        return False

    def is_being_cancelled(self) -> bool:
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
            if quiet >= _CANCELLING_TURNS if self.is_being_cancelled() else not self.has_ready():
                if has_let_others_run or self._loop.time() - since_s <= _BLOCKED_S:
                    return
                has_let_others_run = True  # the flow blocked its loop: handle a stop that was sent meanwhile first
            await asyncio.sleep(0)
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


def _contexts_of(task: "asyncio.Task[Any]") -> list[Context]:
    """Return the context of a waiting task; in Python 3.11, only the callback that wakes the task has it."""
    awaited = getattr(task, "_fut_waiter", None)  # private: asyncio has no public API for it
    callbacks = getattr(awaited, "_callbacks", None) or ()
    return [context for callback, context in callbacks if getattr(callback, "__self__", None) is task]
