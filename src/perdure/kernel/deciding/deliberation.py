"""A decision that may take long: a task beside the loop, which serves the goal meanwhile."""

import asyncio
from collections.abc import Callable

from perdure.kernel.calls.tasks import end_tasks
from perdure.kernel.fold import GoalState
from perdure.kernel.mind import Mind, Proposal


class Deliberation:
    """The one decision that a slow mind is at; `on_end` is called when it can be taken."""

    def __init__(self, mind: Mind, on_end: Callable[[object], None], keep: Callable[[object], None]) -> None:
        self._mind = mind
        self._on_end = on_end
        self._keep = keep
        self._task: asyncio.Task[Proposal] | None = None
        self.began_seq = 0
        """The last event that the mind knew when it was asked."""

    @property
    def has_begun(self) -> bool:
        """Whether there is a decision that was not taken yet."""
        return self._task is not None

    def begin(self, state: GoalState, now_us: int) -> None:
        """Ask the mind, and do not wait for it."""
        self.began_seq = state.head.seq
        self._task = asyncio.create_task(_asked(self._mind, state, now_us))
        self._task.add_done_callback(self._on_end)

    def take(self) -> Proposal | None:
        """Return the decision; None while the mind is at it.

        Raises: what the mind has raised.
        """
        task = self._task
        if task is None or not task.done():
            return None
        self._task = None
        return Proposal() if task.cancelled() else task.result()

    async def end(self, within_s: float) -> Proposal | None:
        """Cancel the decision, and return what the mind has answered by then; None if that is nothing.

        A mind that does not let itself be cancelled in time is left alone.
        """
        task, self._task = self._task, None
        if task is None:
            return None
        for left in await end_tasks([task], within_s):
            self._keep(left)
        if not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()


async def _asked(mind: Mind, state: GoalState, now_us: int) -> Proposal:
    return await mind.decide(state, now_us)
