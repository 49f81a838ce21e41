"""A clock that stands still until a test advances it."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Protocol

from perdure.app.home.system import SystemClock
from perdure.errors import Invalid

_SHORTEST_NAP_S = 0.02
"""The minimum interval at which a waiting loop polls the clock."""


_LAST_US = 253_402_300_800 * 1_000_000 - 1
"""The end of the year 9999, the last year of a datetime."""


class Timed(Protocol):
    """Anything that depends on the clock: the goals of a home."""

    async def settle(self) -> None:
        """Wait until nothing runs and nothing is due."""
        ...

    async def next_due_us(self, until_us: int) -> int | None:
        """Return the first time after now, up to a limit, at which something continues by itself."""
        ...

    def wake(self) -> None:
        """Let every waiting loop read the clock."""
        ...


class ManualClock:
    """The clock of the goals of a home; only `advance` moves it.

    Leases, polling and the steps use real time: a worker does not lose a goal because a test advances a day.
    """

    def __init__(self, now: datetime, timed: Timed) -> None:
        self._now_us = _us(now)
        self._timed = timed
        self._timeouts: dict[asyncio.Timeout, int] = {}
        """The timeouts of running steps, and the time at which each expires."""
        self._move_lock = asyncio.Lock()
        self._machine = SystemClock()

    @property
    def now(self) -> datetime:
        """The current time of the goals, in UTC."""
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=self._now_us)

    async def advance(self, seconds: float) -> None:
        """Advance the time, and wait until everything that became due has run and nothing more happens.

        Sleeps, deadlines, timeouts and waits of retries become due in their order, also ones that start meanwhile. With
        0, only wait until nothing more happens, for example after an answer.

        Raises: Invalid when `seconds` is negative, not a number, or leads beyond the year 9999.
        """
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            raise Invalid(f"Invalid seconds: expected a number of at least 0, got {seconds!r}.")
        async with self._move_lock:
            await self._timed.settle()
            most_s = (_LAST_US - self._now_us) // 1_000_000
            if seconds > most_s:
                raise Invalid(
                    f"The clock cannot be advanced by {str(seconds)[:20]} s: the year 9999 ends in {most_s} s."
                )
            end_us = self._now_us + round(seconds * 1e6)
            while (due_us := await self._next_due_us(end_us)) is not None:
                await self._move_to(due_us)
            if self._now_us < end_us:
                await self._move_to(end_us)

    def now_us(self) -> int:
        """See Clock.now_us."""
        return self._now_us

    def boottime_s(self) -> float:
        """See Clock.boottime_s. It is the real one, which measures leases."""
        return self._machine.boottime_s()

    async def sleep(self, seconds: float) -> None:
        """See Clock.sleep. Sleeps in real time; the caller reads `now_us` afterwards."""
        await self._machine.sleep(max(seconds, _SHORTEST_NAP_S) if seconds > 0 else 0)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """Return a block that is cancelled when this clock has advanced by `seconds`. See StepCalls.timeout."""
        return self._limited(seconds)

    @asynccontextmanager
    async def _limited(self, seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
        async with asyncio.timeout(None) as limit:
            if seconds is not None:
                self._timeouts[limit] = self._now_us + round(seconds * 1e6)
            try:
                yield limit
            finally:
                self._timeouts.pop(limit, None)

    async def _next_due_us(self, until_us: int) -> int | None:
        moments = [when_us for when_us in self._timeouts.values() if self._now_us < when_us <= until_us]
        of_goals = await self._timed.next_due_us(until_us)
        return min([*moments, *([] if of_goals is None else [of_goals])], default=None)

    async def _move_to(self, now_us: int) -> None:
        self._now_us = now_us
        for limit in [limit for limit, when_us in self._timeouts.items() if when_us <= now_us]:
            del self._timeouts[limit]
            limit.reschedule(asyncio.get_running_loop().time())
        self._timed.wake()
        await self._timed.settle()


def _us(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise Invalid(f"Invalid now: expected a datetime with a time zone, such as datetime.now(UTC), got {moment!r}.")
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)
