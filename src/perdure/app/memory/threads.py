"""Runs calls of the memory, which reads and writes files, in threads."""

import asyncio
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from perdure.memory.callers import CALLER, Caller

P = ParamSpec("P")
T = TypeVar("T")


class MemoryThreads:
    """The running calls; a cancelled call writes nothing later."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()

    async def wait(self) -> None:
        """Wait for the calls that run."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def call(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a thread. After the caller was cancelled, it writes nothing.

        A write that had started is awaited; one that had not is skipped.
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
