"""Waits until something happens to a goal, or until a moment comes."""

import asyncio

from perdure.kernel.calls.tasks import end_tasks
from perdure.kernel.ports import Clock

LONGEST_NAP_S = 10.0
"""A moment is waited for in naps no longer than this, because the clock may be set meanwhile."""


class Waking:
    """Wakes up the loop of one goal: an outcome, a stop or a post has come."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()
        self._is_waiting = False

    @property
    def is_at_rest(self) -> bool:
        """Whether the loop waits, and nothing has come yet."""
        return self._is_waiting and not self._event.is_set()

    def wake(self, _cause: object = None) -> None:
        """End the wait, or the next one when there is none now."""
        self._event.set()

    async def wait(self, pause_s: float | None) -> None:
        """Wait to be woken up; return after a pause at the latest, or earlier: see LONGEST_NAP_S."""
        self._is_waiting = True
        try:
            await (self._event.wait() if pause_s is None else self._nap(pause_s))
        finally:
            self._is_waiting = False
        self._event.clear()

    async def _nap(self, pause_s: float) -> None:
        others = {
            asyncio.ensure_future(self._clock.sleep(min(pause_s, LONGEST_NAP_S))),
            asyncio.ensure_future(self._event.wait()),
        }
        try:
            await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(others)
