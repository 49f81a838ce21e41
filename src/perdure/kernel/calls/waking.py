"""Lets the loop of a goal wait for a change or a moment."""

import asyncio

from perdure.kernel.ports import Clock
from perdure.tasks import end_tasks

LONGEST_NAP_S = 10.0
"""The longest single sleep: the clock may be changed meanwhile."""


class Waking:
    """Wakes the loop of one goal after an outcome, a stop or a post."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()
        self._is_waiting = False

    @property
    def is_at_rest(self) -> bool:
        """Whether the loop waits and was not woken."""
        return self._is_waiting and not self._event.is_set()

    def wake(self, _cause: object = None) -> None:
        """End the wait, or the next one when there is none now."""
        self._event.set()

    async def wait(self, pause_s: float | None) -> None:
        """Wait for `wake`, at most `pause_s` seconds; may return earlier, see LONGEST_NAP_S."""
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
