"""Calls of the memory, which reads and writes files, in threads."""

import asyncio
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from perdure.memory.callers import CALLER, Caller

P = ParamSpec("P")
T = TypeVar("T")


class MemoryThreads:
    """The calls that run in threads now; a call that was cancelled writes nothing later."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()

    async def wait(self) -> None:
        """Wait for the calls that run."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def call(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something in a thread. For a caller that is cancelled, nothing is written later.

        A write that has begun by then is awaited, and one that has not begun is not done.
        """
        caller = Caller()
        token = CALLER.set(caller)
        try:
            work = asyncio.ensure_future(asyncio.to_thread(act, *args, **kwargs))
        finally:
            CALLER.reset(token)
        self._running.add(work)
        work.add_done_callback(self._ended)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if caller.give_up():
                await asyncio.wait([work])
            raise

    def _ended(self, work: asyncio.Future[Any]) -> None:
        self._running.discard(work)
        if not work.cancelled():
            work.exception()  # the waiting caller gets it; without one, asyncio must not log it as unhandled
