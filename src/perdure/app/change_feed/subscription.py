"""What one subscriber of the change feed has not read yet."""

import asyncio
import contextlib

from perdure.app.change_feed.progress import PendingProgress, ProgressReport
from perdure.errors import Unavailable

MAX_PENDING = 8_000
"""How many changed goals are kept for a subscriber that does not read, which is less than a mebibyte."""


class Subscription:
    """Changed goals that wait for one subscriber: each once, however often it changes."""

    def __init__(self, progress: PendingProgress | None = None) -> None:
        self.progress = progress
        """What the calls of the goals report while they run; None for a subscriber that does not want it."""
        self.has_missed = False
        """Whether goals may have changed that it was not told of: there were too many, or the store was restored."""
        self._goals: dict[str, None] = {}
        self._has_come = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._is_woken = self._is_over = False

    def report(self, report: ProgressReport) -> None:
        """Note the progress of a call, for a subscriber that wants it."""
        if self.progress is not None:
            self.progress.put(report)
            self._notify()

    def tell(self, goal_id: str) -> None:
        """Note that a goal has changed."""
        if len(self._goals) < MAX_PENDING or goal_id in self._goals:
            self._goals[goal_id] = None
        else:
            self.has_missed = True
        self._notify()

    def miss(self) -> None:
        """Note that any goal may have changed."""
        self.has_missed = True
        self.wake()

    def end(self) -> None:
        """Let `wait` raise from now on: the home is closed."""
        self._is_over = True
        self.wake()

    def wake(self) -> None:
        """Let `wait` return although nothing has changed."""
        self._is_woken = True
        self._notify()

    def _notify(self) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop of the subscriber is closed
            self._loop.call_soon_threadsafe(self._has_come.set)

    async def wait(self, timeout_s: float) -> list[str]:
        """Wait for changes, and return the goals that have changed.

        There are none when only progress was reported, when it was woken, or when the time is over.

        Raises: Unavailable when the home is closed.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not (self._goals or self.progress or self._is_woken or self._is_over):
                    await self._has_come.wait()
                    self._has_come.clear()
        self._is_woken = False
        if self._is_over:
            raise Unavailable("These goals are of a home that is closed. Use them inside its `async with` block.")
        changed, self._goals = list(self._goals), {}
        return changed
