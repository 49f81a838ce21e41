"""Delivers the cancel of a goal to its flow: as CancelledError, at the position of the cancel in the history."""

import asyncio
from typing import Any

from perdure.kernel.fold import GoalState

_MOST_REFUSED = 100


class Cleanup:
    """Cancels the body of a flow once, between the outcomes that were recorded before the cancel and after it."""

    def __init__(self) -> None:
        self.has_begun = False
        self._refused = 0

    async def refuse(self, body: "asyncio.Task[Any] | None") -> None:
        """Raise CancelledError in a flow that is being unwound. After many calls, wait for ever instead.

        Otherwise a loop that catches every CancelledError would block the event loop. A task group does not see the
        CancelledError of a member as a failure, and its other members may wait for that one. So the body is cancelled
        again.
        """
        self._refused += 1
        if body is not None and asyncio.current_task() is not body:
            body.cancel()
        if self._refused > _MOST_REFUSED:
            await asyncio.get_running_loop().create_future()
        raise asyncio.CancelledError

    def is_next(self, state: GoalState, delivered: int) -> bool:
        """Return whether the cancel precedes the next outcome to deliver."""
        if state.cancel is None or self.has_begun:
            return False
        if delivered == len(state.settled):
            return True
        return (state.calls[state.settled[delivered]].ended_seq or 0) > state.cancel_seq

    def begin(self, body: "asyncio.Task[Any] | None") -> None:
        """Raise CancelledError where the body of the flow waits."""
        self.has_begun = True
        if body is not None:
            body.cancel("The goal was cancelled.")

    def is_ended_by(self, error: BaseException) -> bool:
        """Return whether an exception of the body comes from the cancel."""
        return self.has_begun and issubclass(type(error), asyncio.CancelledError)
