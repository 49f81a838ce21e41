"""The pending changes of one subscriber of the change feed."""

import asyncio
import contextlib

from perdure.app.change_feed.answers import PendingAnswer
from perdure.app.change_feed.progress import PendingProgress, ProgressReport
from perdure.errors import Unavailable
from perdure.kernel.conversation.answer_feed import AnswerDelta, AnswerReset

HOME_IS_CLOSED = "The home is closed. Use `p.goals` inside the block `async with Perdure.open(…) as p`."
"""The error of goals that are used after their home was closed."""
MAX_PENDING = 8_000
"""The maximum number of pending goals of a subscriber that does not read; less than a mebibyte."""


class Subscription:
    """The changed goals for one subscriber; each is listed once until it is read."""

    def __init__(self, progress: PendingProgress | None = None) -> None:
        self.progress = progress
        """Pending progress reports; None for a subscriber without progress."""
        self.answer: PendingAnswer | None = None
        """Pending parts of the answers of models; None for a subscriber without answers."""
        self.has_missed = False
        """Whether changes may be missing: there were too many, or the store was restored."""
        self._goals: dict[str, None] = {}
        self._has_changes = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._is_woken = self._is_over = False

    def report(self, report: ProgressReport) -> None:
        """Add a progress report, for a subscriber with progress."""
        if self.progress is not None:
            self.progress.put(report)
            self._notify()

    def report_answer(self, piece: AnswerDelta | AnswerReset) -> None:
        """Add a part of an answer, for a subscriber with answers."""
        if self.answer is not None:
            self.answer.put(piece)
            self._notify()

    def add(self, goal_id: str) -> None:
        """Add a changed goal."""
        if len(self._goals) < MAX_PENDING or goal_id in self._goals:
            self._goals[goal_id] = None
        else:
            self.has_missed = True
        self._notify()

    def miss(self) -> None:
        """Mark changes as missing: any goal may have changed."""
        self.has_missed = True
        self.wake()

    def end(self) -> None:
        """Make `wait` raise from now on, because the home is closed."""
        self._is_over = True
        self.wake()

    def wake(self) -> None:
        """Make `wait` return although nothing has changed."""
        self._is_woken = True
        self._notify()

    def _notify(self) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop of the subscriber is closed
            self._loop.call_soon_threadsafe(self._has_changes.set)

    async def wait(self, timeout_s: float) -> list[str]:
        """Wait for changes, and return the changed goals.

        The list is empty if only progress was reported, the subscriber was woken, or the time is over.

        Raises: Unavailable when the home is closed.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not (self._goals or self.progress or self.answer or self._is_woken or self._is_over):
                    await self._has_changes.wait()
                    self._has_changes.clear()
        self._is_woken = False
        if self._is_over:
            raise Unavailable(HOME_IS_CLOSED)
        changed, self._goals = list(self._goals), {}
        return changed
