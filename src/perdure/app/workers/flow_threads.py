"""Threads with their own event loops, so that blocking user code does not block the server."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from perdure.app.home.system import keep_for_ever
from perdure.errors import Unavailable
from perdure.tasks import end_tasks

DEAF_S = 3.0
"""The time after which an event loop that does not respond counts as blocked, and is not waited for."""
WITHIN_S = 10.0
_PAUSE_S = 0.1
_UNWIND_S = 10.0

log = logging.getLogger(__name__)

T = TypeVar("T")


class FlowThread:
    """A daemon thread that runs the event loop of one flow.

    It is created and used on the event loop of the server. The process can exit while the thread is blocked.
    """

    def __init__(self, name: str) -> None:
        """Start the thread.

        Raises: Unavailable when the system has no thread or no descriptors left.
        """
        self.is_abandoned = False
        """True from its cancellation until its end: its code may still run, but must not start anything."""
        self._name = name
        self._home = asyncio.get_running_loop()
        self._is_closing = False
        try:
            self._loop = asyncio.new_event_loop()
        except OSError as error:
            raise Unavailable(f"No event loop can be made for {name}: {error.strerror}. Try again later.") from error
        try:
            threading.Thread(target=self._main, name=f"perdure-flow-{name}", daemon=True).start()
        except RuntimeError as error:
            self._loop.close()
            raise Unavailable(f"No thread can be started for {name}: {error}. Try again later.") from error

    async def run(self, coroutine: Coroutine[Any, Any, T], on_late_end: Callable[[], None] = lambda: None) -> T:
        """Run a coroutine on the thread, and wait for its end.

        A cancellation is passed to the coroutine, and its end is awaited while the thread responds. Otherwise
        `is_abandoned` stays true, and `on_late_end` is called when the coroutine ends later.
        """
        task: asyncio.Task[T] | None = None
        ended: asyncio.Future[T] = self._home.create_future()

        def begin() -> None:
            nonlocal task
            task = self._loop.create_task(coroutine)
            task.add_done_callback(lambda done: self._at_home(_hand_over, done, ended))

        def cancel() -> None:
            if task is not None:
                task.cancel()

        self._there(begin)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            self.is_abandoned = not ended.done()
            self._there(cancel)
            try:
                await self._wait_while_it_answers(ended)
            finally:
                self.is_abandoned = not ended.done()
                if self.is_abandoned:
                    ended.add_done_callback(lambda _ended: self._ended_late(on_late_end))
            raise

    async def call(self, fn: Callable[[], T], on_late_end: Callable[[], None] = lambda: None) -> T:
        """Call a function on the thread. See `run`."""

        async def called() -> T:
            return fn()

        return await self.run(called(), on_late_end)

    def close(self) -> None:
        """End the thread as soon as its event loop can."""
        self._there(self._close)

    async def _wait_while_it_answers(self, ended: "asyncio.Future[Any]") -> None:
        while not ended.done():
            answered = self._home.create_future()
            self._there(lambda answered=answered: self._at_home(_settle, answered))  # type: ignore[misc]
            done, _ = await asyncio.wait({ended, answered}, timeout=DEAF_S, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                log.warning(
                    "the code of %s blocked its event loop for %g s; its thread is abandoned",
                    self._name,
                    DEAF_S,
                )
                return
            await asyncio.wait({ended}, timeout=_PAUSE_S)

    def _ended_late(self, on_late_end: Callable[[], None]) -> None:
        self.is_abandoned = False
        on_late_end()

    def _there(self, act: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop of the thread is closed
            self._loop.call_soon_threadsafe(act)

    def _at_home(self, act: Callable[..., object], *values: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop of the server is closed
            self._home.call_soon_threadsafe(act, *values)

    def _close(self) -> None:
        self._is_closing = True
        self._loop.stop()

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._is_closing:
            self._turn(self._loop.run_forever)
        self._turn(lambda: self._loop.run_until_complete(_unwind()))
        self._loop.close()

    def _turn(self, run: Callable[[], object]) -> None:
        """Run the event loop; SystemExit in a task or callback of the flow ends only this turn."""
        try:
            run()
        except (SystemExit, KeyboardInterrupt) as error:
            log.warning("code of %s raised %s outside of its flow", self._name, type(error).__name__)


class Apart:
    """Calls user code outside of goals, such as the import of a module, each call on its own thread."""

    def __init__(self) -> None:
        self._late: set[str] = set()

    async def call(self, name: str, fn: Callable[[], T], *, within_s: float = WITHIN_S) -> T:
        """Call a function under a name. While an earlier call of the same name still blocks, new calls are rejected.

        Raises: the errors of the function; Unavailable when it takes too long.
        """
        late = Unavailable(
            f"Importing {name}, or reading its arguments, took longer than {within_s:g} s. Look for code that blocks at"
            " the top level of its module, or in a type of its parameters."
        )
        if name in self._late:
            raise late
        thread = FlowThread(name)
        try:
            async with asyncio.timeout(within_s):
                return await thread.call(fn, lambda: self._late.discard(name))
        except TimeoutError:
            raise late from None
        finally:
            if thread.is_abandoned:
                self._late.add(name)
            thread.close()


async def _unwind() -> None:
    """Cancel the tasks that a flow has left behind; a task that ignores the cancellation is never run again."""
    this = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not this]
    for task in await end_tasks(others, _UNWIND_S):
        keep_for_ever(task)
    await asyncio.get_running_loop().shutdown_asyncgens()


def _hand_over(task: "asyncio.Task[T]", ended: "asyncio.Future[T]") -> None:
    if task.cancelled():
        ended.cancel()
    elif (error := task.exception()) is not None:
        ended.set_exception(error)
        ended.exception()  # the server may have stopped waiting for it
    else:
        ended.set_result(task.result())


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
