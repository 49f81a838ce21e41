"""Threads that do an adapter's blocking work; one of them is the writer."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """A fixed number of threads, started when first needed; with one, jobs run in the order of arrival."""

    def __init__(self, name: str, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix=name)

    async def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function on one of the threads. Cancelling the wait does not undo what was begun."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: fn(*args, **kwargs))

    def stop(self, *, wait: bool = False) -> None:
        """Take no more jobs; finish those that were taken."""
        self._executor.shutdown(wait=wait)
