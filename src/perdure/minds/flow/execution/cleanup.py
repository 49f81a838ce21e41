"""The cancel of a goal as its flow sees it: CancelledError at the place that the cancel has in the history."""

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
        """Raise CancelledError in a flow that is being unwound; one that never stops asking waits for ever instead.

        Without that, a loop that swallows every CancelledError would block the event loop. A task beside the body that
        ends in this way is not a failure to a task group, and siblings may wait for it: the body is cancelled again.
        """
        self._refused += 1
        if body is not None and asyncio.current_task() is not body:
            body.cancel()
        if self._refused > _MOST_REFUSED:
            await asyncio.get_running_loop().create_future()
        raise asyncio.CancelledError

    def is_next(self, state: GoalState, delivered: int) -> bool:
        """Tell whether the cancel comes before the next outcome, when some outcomes were delivered."""
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
        """Tell whether an exception of the body is the one that the cancel has raised."""
        return self.has_begun and issubclass(type(error), asyncio.CancelledError)
