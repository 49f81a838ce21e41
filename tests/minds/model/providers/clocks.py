"""A clock whose short pauses pass at once, and whose long ones pass when a test says so."""

import asyncio

_SHORT_S = 61.0
"""Longer than every pause between attempts; the deadlines are as long or longer."""
_FIRST_EVENT_S = 60.0


class QuickClock:
    """See Clock. A deadline is a pause that passes when the test advances the clock."""

    def __init__(self) -> None:
        self.now_s = 1_000_000.0
        self.pauses: list[float] = []
        """The pauses between attempts."""
        self._sleeping: dict[asyncio.Event, float] = {}
        self.deadlines: list[float] = []
        """The deadlines that began."""

    def now_us(self) -> int:
        return round(self.now_s * 1_000_000)

    def boottime_s(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        if seconds < _SHORT_S and seconds != _FIRST_EVENT_S:
            self.pauses.append(seconds)
            self.now_s += seconds
            await asyncio.sleep(0)
            return
        self.deadlines.append(seconds)
        woken = asyncio.Event()
        self._sleeping[woken] = self.now_s + seconds
        try:
            await woken.wait()
        finally:
            del self._sleeping[woken]

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds
        for woken, moment_s in self._sleeping.items():
            if moment_s <= self.now_s:
                woken.set()
