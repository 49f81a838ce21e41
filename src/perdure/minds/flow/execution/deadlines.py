"""Recorded deadlines of a flow: `async with goal.timeout(seconds)`."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING

from perdure.errors import Invalid
from perdure.minds.flow.requests import Pause, Request
from perdure.minds.flow.steps.failed_steps import tag_with_steps

if TYPE_CHECKING:
    from perdure.minds.flow.mind import FlowMind


class Deadline:
    """A block that is cancelled at a recorded moment; created by `goal.timeout(seconds)`.

    It works like `asyncio.timeout`: at the moment, the task is cancelled, and the block converts the cancellation to
    TimeoutError. The moment is a recorded wait, so it is the same after a restart.
    """

    def __init__(self, mind: "FlowMind", seconds: float) -> None:
        self._mind = mind
        self._seconds = seconds
        self._request: Request | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._has_passed = False

    async def __aenter__(self) -> "Deadline":
        """Begin the block, and record its deadline.

        Raises: Invalid when the block was entered before.
        """
        task = asyncio.current_task()
        if self._request is not None or task is None:
            raise Invalid("A goal.timeout must be entered once, inside a task.")
        self._task, self._cancelling = task, task.cancelling()
        self._request = self._mind.ask_for("timeout", Pause(seconds=self._seconds))
        self._request.answer.add_done_callback(self._pass)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the block. Raises: TimeoutError when the deadline has passed."""
        request, task = self._request, self._task
        if request is None or task is None:
            return
        request.answer.remove_done_callback(self._pass)
        if not self._has_passed:
            self._mind.forget(request)
        elif task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            late = TimeoutError(f"goal.timeout({self._seconds:g}) has passed.")
            tag_with_steps(late, [request.step])
            raise late from error

    @property
    def has_passed(self) -> bool:
        """Whether the deadline has passed while the block ran."""
        return self._has_passed

    def _pass(self, answer: "asyncio.Future[object]") -> None:
        if self._task is not None and not answer.cancelled():
            self._has_passed = True
            self._task.cancel()
