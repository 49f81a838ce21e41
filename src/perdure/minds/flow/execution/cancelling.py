"""Cancels requests of a flow: their calls are ended and recorded as cancelled before the flow continues.

A task that is cancelled while it waits for a step keeps waiting until the end of the call is recorded and delivered.
Only then is CancelledError raised in the task. So it is raised between the same outcomes in every run.
"""

import asyncio
from collections.abc import Sequence

from perdure.kernel.fold import GoalState
from perdure.minds.flow.execution.progress import Progress
from perdure.minds.flow.requests import Request, Uncancellable
from perdure.minds.step_status import call_id, status_of_step


class Cancelling:
    """Ends requests that the function has cancelled or abandoned."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._abandoned: list[str] = []
        """Running calls of pure steps whose result the function no longer needs."""

    async def cancel(self, request: Request) -> None:
        """Wait until the end of the call of a cancelled request is delivered.

        Raises: CancelledError when a scope of anyio has cancelled the wait too.
        """
        if not self._awaits_delivery(request):
            self.drop(request)
            return
        self._mark_cancelled(request)
        ended = request.ended = Uncancellable(loop=asyncio.get_running_loop())
        await ended
        if ended.text is not None:
            raise asyncio.CancelledError(ended.text)

    def _mark_cancelled(self, request: Request) -> None:
        request.is_cancelled = True
        self._progress.cancelled.add(request.step)
        self._progress.note_activity(asyncio.get_running_loop())

    def _awaits_delivery(self, request: Request) -> bool:
        """Return whether the last call of a request is open, or its end is not delivered yet."""
        state = self._progress.state
        if state is None or (request.answer.done() and not request.answer.cancelled()):
            return False
        if self._progress.requests.get(request.step) is not request:
            return False  # the history has something else, so nothing of it is delivered
        last = status_of_step(state, request.step).last
        if last is None:
            return False
        return last.is_open or last.call.call_id in state.settled[self._progress.delivered :]

    def drop(self, request: Request) -> None:
        """Remove a request that the function no longer waits for."""
        request.answer.cancel()
        self._progress.note_activity(asyncio.get_running_loop())
        self._progress.requests.pop(request.step, None)
        self._progress.cancelled.discard(request.step)
        if request in self._progress.fresh:
            self._progress.fresh.remove(request)
        if request.is_pure and request.attempts_begun and not request.is_cancelled:
            self._abandoned.append(call_id(request.step, request.attempts_begun))
        if request.ended is not None and not request.ended.done():
            request.ended.set_result(None)

    def cancelled_calls(self, state: GoalState) -> list[str]:
        """Return the open calls that the function has cancelled."""
        cancelled = self._progress.cancelled
        return [name for name, call in state.open_calls.items() if call.call.step in cancelled] if cancelled else []

    def take_abandoned(self) -> Sequence[str]:
        """Return abandoned calls of pure steps, each once."""
        if not self._abandoned:
            return ()
        abandoned, self._abandoned = self._abandoned, []
        return abandoned

    def forget(self, request: Request) -> None:
        """Cancel a request without waiting for its record."""
        if self._progress.is_closed:
            return
        if self._awaits_delivery(request):
            self._mark_cancelled(request)
        else:
            self.drop(request)
