"""A home for sync code: it runs on its own event loop, and one function waits for the results of its methods.

with perdure.sync.open() as (p, wait):
    result = wait(p.goals.run(nightly, "2026-11-15"))
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from contextvars import copy_context
from typing import Any, TypeVar

from perdure.app import Perdure, resume_lines_of
from perdure.app.home.script_interrupts import report_interrupt
from perdure.errors import Invalid

T = TypeVar("T")


class Wait:
    """Runs an awaitable on the event loop of a home, and returns its result; `perdure.sync.open` returns one.

    Several threads may wait at once.
    """

    def __init__(self, thread: "_HomeThread") -> None:
        self._thread = thread

    def __call__(self, awaitable: Awaitable[T], /) -> T:
        """Wait for the result of an awaitable.

        Ctrl-C cancels the awaitable, waits for its end, and is raised.

        Raises: the exceptions of the awaitable; Invalid when the home is closed, or on the thread of the home, where
        code must use `await`.
        """
        return self._thread.wait(awaitable)


@contextmanager
def open(  # noqa: A001 (as Perdure.open)
    home: str | os.PathLike[str] | None = None,
    *,
    database_url: str | None = None,
    app: str | None = None,
    recover: bool = False,
) -> Iterator[tuple[Perdure, Wait]]:
    """Open a home inside a `with` block, also if an event loop runs already. See `Perdure.open`.

    Flows and async steps run on the event loop of the home, in its own thread.
    """
    opening = Perdure.open(home, database_url=database_url, app=app, recover=recover)
    thread = _HomeThread(opening)
    try:
        p = thread.opened()
        with report_interrupt(lambda: resume_lines_of(p)):
            yield p, Wait(thread)
    finally:
        thread.close()


class _HomeThread:
    """A thread that opens a home, runs its event loop, and closes it."""

    def __init__(self, opening: AbstractAsyncContextManager[Perdure]) -> None:
        self._opening = opening
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: Future[Perdure] = Future()
        self._closing = asyncio.Event()
        self._waits: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="perdure-sync", daemon=True)
        self._thread.start()

    def opened(self) -> Perdure:
        """Wait until the home is open, and return it. Raises: as `Perdure.open`."""
        return self._opened.result()

    def wait(self, awaitable: Awaitable[T]) -> T:
        """See Wait.__call__."""
        loop = self._require_usable(awaitable)
        ended: Future[T] = Future()
        context = copy_context()
        begun: list[asyncio.Task[None]] = []

        def begin() -> None:
            task = loop.create_task(_settle(awaitable, ended), context=context)
            task.add_done_callback(lambda _task: self._end(task, ended))
            self._waits.add(task)
            begun.append(task)

        def cancel() -> None:
            begun[0].cancel()

        loop.call_soon_threadsafe(begin)
        try:
            return ended.result()
        except KeyboardInterrupt:
            if not ended.done():
                loop.call_soon_threadsafe(cancel)
                ended.exception()
            raise

    def _end(self, task: "asyncio.Task[None]", ended: "Future[Any]") -> None:
        self._waits.discard(task)
        if not ended.done():  # cancelled before its start
            ended.set_exception(asyncio.CancelledError())

    def close(self) -> None:
        """Close the home, and end the thread. Raises: the error of closing the home."""
        self._is_closed = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, because the home could not be opened
                self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _require_usable(self, awaitable: Awaitable[Any]) -> asyncio.AbstractEventLoop:
        loop = self._loop
        if loop is not None and not self._is_closed and threading.current_thread() is not self._thread:
            return loop
        if asyncio.iscoroutine(awaitable):
            awaitable.close()
        if self._is_closed or loop is None:
            raise Invalid("The home is closed. Call `wait` inside the block of `perdure.sync.open(…)`.")
        raise Invalid(
            "`wait` was called on the thread of the home, by a flow or an async step, and would wait for itself. Use"
            " `await` there."
        )

    def _main(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 (it is raised by the thread that waits)
            if self._opened.done():
                self._failure = error
            else:
                self._opened.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._opening as p:
            p.goals.require_open()  # created here, not by several threads at once
            self._opened.set_result(p)
            if not self._is_closed:  # false after Ctrl-C while the home was being opened
                await self._closing.wait()
            for task in list(self._waits):
                task.cancel()
            await asyncio.gather(*self._waits, return_exceptions=True)


async def _settle(awaitable: Awaitable[T], ended: "Future[T]") -> None:
    try:
        ended.set_result(await awaitable)
    except BaseException as error:  # noqa: BLE001 (it is raised by the thread that waits)
        ended.set_exception(error)
