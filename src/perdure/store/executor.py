"""Runs the blocking work of a database adapter on its own threads; the executor with one thread is the writer.

The threads are daemons, so a program that ends does not wait for a thread that waits for a lock or a disk. The work of
such a thread is then interrupted as by a kill, which every write survives.
"""

import asyncio
import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

Job = Callable[[], Callable[[], None] | None]
"""Work for a thread; what it returns notifies the waiters, and is called when the thread counts as idle again."""
Settled = tuple["asyncio.Future[Any]", object, BaseException | None]


class Executor:
    """A fixed number of threads, started when first needed; with one, jobs run in the order of arrival."""

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._count = count
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0
        self._counting = threading.Lock()
        self._is_stopped = False
        self._pid = os.getpid()

    @property
    def is_idle(self) -> bool:
        """Whether no job is queued or running."""
        return self._unfinished == 0

    async def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a blocking function on one of the threads. Cancelling the wait does not stop the function."""
        self.require_usable()
        return await self._submit_call(lambda: fn(*args, **kwargs))

    async def finish(self, fn: Callable[[], None]) -> None:
        """Run a last function after all queued jobs, and end the threads; later jobs are rejected."""
        self.require_usable()
        waiting = self._submit_call(fn)
        self.stop()
        try:
            await waiting
        finally:
            if waiting.done() and not waiting.cancelled():
                self._join()  # they end at once

    def submit(self, job: Job) -> None:
        """Queue a job behind all others; no caller waits for it."""
        with self._counting:  # several event loops may submit at once, each on a thread of its own
            self._unfinished += 1
            self._jobs.put(job)
            if len(self._threads) < self._count:
                thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
                thread.start()
                self._threads.append(thread)

    def require_usable(self) -> None:
        """Reject a call that would wait for ever.

        Raises: RuntimeError when the threads were stopped, this process is a forked child, or one of them calls.
        """
        if self._is_stopped:
            raise RuntimeError(f"the threads {self._name} have been stopped")
        if os.getpid() != self._pid:
            raise RuntimeError("this database was opened before a fork, so the child cannot use it")
        if threading.get_ident() in [thread.ident for thread in self._threads]:
            raise RuntimeError("a function that runs in a transaction cannot wait for another transaction")

    def stop(self, *, wait: bool = False) -> None:
        """Reject further jobs, and finish the queued ones."""
        self._is_stopped = True
        for _ in self._threads:
            self._jobs.put(None)
        if wait:
            self._join()

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _submit_call(self, fn: Callable[[], T]) -> "asyncio.Future[T]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def job() -> Callable[[], None] | None:
            if future.cancelled():
                return None
            try:
                done = (future, fn(), None)
            except BaseException as error:  # noqa: BLE001 (it is raised to the waiter)
                return lambda error=error: settle(loop, [(future, None, error)])  # type: ignore[misc]
            return lambda: settle(loop, [done])

        self.submit(job)
        return future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            notify = None
            try:
                notify = job()
            except BaseException:
                log.exception("a job that no caller waits for failed on a thread of %s", self._name)
            with self._counting:
                self._unfinished -= 1
            if notify is not None:
                notify()
            del job, notify  # release their references before waiting for the next job


def settle(loop: asyncio.AbstractEventLoop, outcomes: Iterable[Settled]) -> None:
    """Settle the futures of a loop from another thread, by one wake-up."""
    with contextlib.suppress(RuntimeError):  # the loop was closed: no waiter is left
        loop.call_soon_threadsafe(_settle_all, outcomes)


def _settle_all(outcomes: Iterable[Settled]) -> None:
    for future, result, error in outcomes:
        if future.done():
            continue  # the waiter was cancelled
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration | KeyboardInterrupt | SystemExit):
            # asyncio cannot pass these on unchanged, or would end the loop
            future.set_exception(RuntimeError(f"{type(error).__name__} in a function that ran on another thread"))
        else:
            future.set_exception(error)
