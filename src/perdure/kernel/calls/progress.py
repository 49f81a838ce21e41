"""How far calls have come while they run: told to observers of this process, never recorded."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class CallProgress:
    """What a call has reported about itself last."""

    goal_id: str
    call_id: str
    value: Any
    """JSON."""

    @property
    def text(self) -> str:
        """The value as people read it: a text as it is, anything else as JSON."""
        return self.value if isinstance(self.value, str) else orjson.dumps(self.value).decode()


ProgressListener = Callable[[CallProgress], None]


class ProgressFeed:
    """Tells listeners about the progress of calls, on the event loop of the run.

    Only the newest value of each call is kept until the listeners are called, which is once in a turn of the event
    loop. So a call that reports faster than that costs no more memory, and values between are never seen.
    """

    def __init__(self, goal_id: str, event_loop: asyncio.AbstractEventLoop) -> None:
        self._goal_id = goal_id
        self._event_loop = event_loop
        self._listeners: list[ProgressListener] = []
        self._newest: dict[str, Any] = {}
        self._is_scheduled = False

    def listen(self, listener: ProgressListener) -> None:
        """Call a function with each progress from now on."""
        self._listeners.append(listener)

    def report(self, call_id: str, value: Any) -> None:
        """Publish the progress of a call, from any thread; it is dropped without a listener."""
        if not self._listeners:
            return
        self._newest[call_id] = value
        if not self._is_scheduled:  # two threads may both schedule it, and then the second finds nothing
            self._is_scheduled = True
            with suppress(RuntimeError):  # the event loop is closed: the run is over
                self._event_loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._is_scheduled = False  # before the values are taken: what comes from now on is told in the next turn
        for call_id in list(self._newest):
            progress = CallProgress(self._goal_id, call_id, self._newest.pop(call_id))
            for listener in self._listeners:
                listener(progress)
