"""Requests that a flow has cancelled: their calls are ended and recorded as cancelled before the flow continues.

A task that is cancelled while it waits for a step waits on until the end of the call is in the history and delivered.
Only then CancelledError is raised in it, so it is raised at the same place between the outcomes in every run.
"""

import asyncio
from collections.abc import Sequence

from perdure.kernel.fold import GoalState
from perdure.minds.flow.execution.progress import Progress
from perdure.minds.flow.requests import Request, Uncancellable
from perdure.minds.step_status import call_id, standing


class Cancelling:
    """Ends the requests that the function does not wait for any more."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._abandoned: list[str] = []
        """Calls of pure steps that run, and whose result the function does not want any more."""

    async def cancel(self, request: Request) -> None:
        """Wait until the call of a request that the function has cancelled is ended, and that is delivered.

        Raises: CancelledError when a scope of anyio has cancelled the wait, too.
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
        """Tell whether the last call of a request is open, or has an end that is not delivered yet."""
        state = self._progress.state
        if state is None or (request.answer.done() and not request.answer.cancelled()):
            return False
        last = standing(state, request.step).last
        if last is None:
            return False
        return last.is_open or last.call.call_id in state.settled[self._progress.delivered :]

    def drop(self, request: Request) -> None:
        """Forget a request that the function does not wait for any more."""
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
        """Return the calls that the function has cancelled and that have not ended."""
        cancelled = self._progress.cancelled
        return [name for name, call in state.open_calls.items() if call.call.step in cancelled] if cancelled else []

    def take_abandoned(self) -> Sequence[str]:
        """Return the calls of pure steps whose result the function does not want any more, each of them once."""
        if not self._abandoned:
            return ()
        abandoned, self._abandoned = self._abandoned, []
        return abandoned

    def forget(self, request: Request) -> None:
        """Cancel what was asked for, without waiting for the record of it."""
        if self._progress.is_closed:
            return
        if self._awaits_delivery(request):
            self._mark_cancelled(request)
        else:
            self.drop(request)
