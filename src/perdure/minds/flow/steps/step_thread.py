"""Runs the function of a step on a daemon thread, which cannot be ended and does not block the end of the process."""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from perdure.minds.flow.steps.tracebacks import class_name, text_of


class BrokenStart(RuntimeError):
    """Starting the thread failed after its function had begun: not an error of the function."""


class _Unusual(RuntimeError):
    """The function raised an exception that a future or event loop cannot pass on."""


class StepThread:
    """One call of a function on its own thread, constructed and awaited on an event loop.

    The thread must take the ticket before it calls the function. If starting the thread fails, the caller takes the
    ticket, so that the function is certainly not called later.
    """

    def __init__(self, fn: Callable[[], Any]) -> None:
        self._fn = fn
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Any] = self._loop.create_future()
        self._context = contextvars.copy_context()
        self._ticket = threading.Lock()
        self._has_ended = False
        self.has_begun = False
        """Whether the function was called."""
        self._thread = threading.Thread(target=self._call, name="perdure-step", daemon=True)

    @property
    def is_alive(self) -> bool:
        """Whether the function may still run."""
        return self._thread.is_alive() and not self._has_ended

    async def run(self) -> Any:
        """Call the function, and return its result.

        Raises: BrokenStart; RuntimeError or MemoryError when no thread can be started; the exception of the function.
        """
        try:
            self._thread.start()
        except BaseException as error:
            if self._ticket.acquire(blocking=False):
                raise
            raise BrokenStart(f"the function of a step has begun, but {type(error).__name__}: {error}") from error
        return await self._ended

    def _call(self) -> None:
        if not self._ticket.acquire(blocking=False):
            return
        self.has_begun = True
        try:
            result, error = self._context.run(self._fn), None
        except BaseException as raised:  # noqa: BLE001 (it is passed to the caller, and raised there)
            result, error = None, raised
        self._has_ended = True
        with contextlib.suppress(RuntimeError):  # the loop is closed, and no task waits
            self._loop.call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if self._ended.cancelled():
            return
        if error is None:
            self._ended.set_result(result)
            return
        kind = type(error)  # not isinstance, which a class may override
        if issubclass(kind, StopIteration) or not issubclass(kind, Exception):
            error = _Unusual(f"the step raised {class_name(error)}: {text_of(error)}")
        try:
            self._ended.set_exception(error)
        except BaseException as other:  # noqa: BLE001 (the call must not wait for ever)
            self._ended.set_exception(_Unusual(f"the exception of the step cannot be raised: {class_name(other)}"))
