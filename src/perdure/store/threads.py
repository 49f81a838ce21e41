"""Threads that do an adapter's blocking work; one of them is the writer.

They are daemons: a program that ends, or is interrupted, while one of them waits for a lock or a disk does not have to
wait too. What such a thread has begun is then cut off as by a kill, which every write here survives.
"""

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """A fixed number of threads, started when first needed; with one, jobs run in the order of arrival."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._is_stopped = False
        self._pid = os.getpid()

    async def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function on one of the threads. Cancelling the wait does not undo what was begun."""
        self._refuse_misuse()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            if future.cancelled():
                return
            try:
                result, error = fn(*args, **kwargs), None
            except BaseException as raised:  # noqa: BLE001 (it is handed over, and raised there)
                result, error = None, raised
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, future, result, error)

        self._jobs.put(job)
        if len(self._threads) < self._count:
            thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return await future

    def post(self, fn: Callable[[], None]) -> None:
        """Run a function after all that was asked for before, and let nobody wait for it."""
        self._jobs.put(fn)

    def _refuse_misuse(self) -> None:
        """Say what would otherwise wait for ever."""
        if self._is_stopped:
            raise RuntimeError(f"the threads {self._name} have been stopped")
        if os.getpid() != self._pid:
            raise RuntimeError("this database was opened before a fork; open it anew in the child")
        if threading.current_thread() in self._threads:
            raise RuntimeError("a function that runs in a transaction cannot wait for another transaction")

    def stop(self, *, wait: bool = False) -> None:
        """Take no more jobs; finish those that were taken."""
        self._is_stopped = True
        for _ in self._threads:
            self._jobs.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _settle(future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration | KeyboardInterrupt | SystemExit):
        # asyncio would not carry these as they are, or would end the loop with them
        future.set_exception(RuntimeError(f"{type(error).__name__} in a function that ran on another thread"))
    else:
        future.set_exception(error)
