"""Asks a slow mind for a proposal in a task, so that the loop can serve the goal meanwhile."""

import asyncio
from collections.abc import Callable

from perdure.kernel.fold import GoalState
from perdure.kernel.mind import Mind, Proposal
from perdure.tasks import end_tasks


class Deliberation:
    """The pending proposal of a slow mind.

    `on_end` is called when its task has ended; `keep` gets a task that does not end after it was cancelled.
    """

    def __init__(self, mind: Mind, on_end: Callable[[object], None], keep: Callable[[object], None]) -> None:
        self._mind = mind
        self._on_end = on_end
        self._keep = keep
        self._task: asyncio.Task[Proposal] | None = None
        self.began_seq = 0
        """The number of the last event when the mind was asked."""

    @property
    def has_begun(self) -> bool:
        """Whether the mind was asked and its proposal was not taken yet."""
        return self._task is not None

    def begin(self, state: GoalState, now_us: int) -> None:
        """Ask the mind without waiting for its answer."""
        self.began_seq = state.head.seq
        self._task = asyncio.create_task(_decide(self._mind, state, now_us))
        self._task.add_done_callback(self._on_end)

    def take(self) -> Proposal | None:
        """Return the proposal; None while the mind is deciding.

        Raises: the exception of the mind.
        """
        task = self._task
        if task is None or not task.done():
            return None
        self._task = None
        if task.cancelled():
            return Proposal()  # not by `end`, which forgets the task: its mind or the end of the event loop did this
        return task.result()

    async def end(self, within_s: float) -> Proposal | None:
        """Cancel the pending proposal. Return it if the mind returned it nevertheless, otherwise None.

        A mind whose task does not end in time is abandoned.
        """
        task, self._task = self._task, None
        if task is None:
            return None
        for unfinished in await end_tasks([task], within_s):
            self._keep(unfinished)
        if not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()


async def _decide(mind: Mind, state: GoalState, now_us: int) -> Proposal:
    return await mind.decide(state, now_us)
