"""An event loop whose clock jumps to the next timer when nothing else can happen, so that a test never waits."""

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

_LONGEST_SILENCE_S = 10.0
"""How long, in real time, a loop without timers waits before the test is told that it hangs."""

_TURN_S = 1e-4
"""How long a turn of the loop takes: a flow that polls must see time pass."""


class _JumpingSelector(selectors.SelectSelector):
    """Waits for real only while a thread works for the loop; else it moves the clock by the time it was to wait."""

    def __init__(self, is_busy: Callable[[], bool], jump: Callable[[float], None]) -> None:
        super().__init__()
        self._is_busy = is_busy
        self._jump = jump
        self._turns = 0

    def select(self, timeout: float | None = None) -> Any:
        self._turns = self._turns + 1 if timeout == 0 else 0
        self._jump(_TURN_S * (1 + self._turns // 1_000))  # anyio polls until a task that it has cancelled ends
        found = super().select(0)
        if found or timeout == 0:
            return found
        while self._is_busy():
            if found := super().select(0.01):
                return found
        if found := super().select(0):
            return found
        if timeout is None:
            found = super().select(_LONGEST_SILENCE_S)
            assert found, "nothing is scheduled on the event loop, and no thread works for it: it hangs"
            return found
        self._jump(timeout)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """Shows a time of its own. It does not jump while a step runs on a thread, or inside of `busy`."""

    def __init__(self) -> None:
        self._now_s = 1_000.0
        self._waits = 0
        super().__init__(_JumpingSelector(self._is_busy, self._jump))

    def time(self) -> float:
        self._now_s += 1e-9  # as of a real clock, no two readings are the same: timers have an order
        return self._now_s

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Let the time stand still: a thread works for what runs inside of this block."""
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1

    def _is_busy(self) -> bool:
        return self._waits > 0 or any(thread.name == "perdure-step" for thread in threading.enumerate())

    def _jump(self, seconds: float) -> None:
        self._now_s += seconds


class LoopClock:
    """The time of the event loop, as the clock of goals."""

    _START_US = 1_700_000_000_000_000

    def now_us(self) -> int:
        return self._START_US + round(asyncio.get_running_loop().time() * 1e6)

    def boottime_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Timeless:
    """A store or its leases, whose calls take no time on the event loop that runs."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            with loop.busy():
                return await method(*args, **kwargs)

        return call


def run_virtual(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on an event loop with virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main)
