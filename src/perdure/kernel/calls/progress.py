"""The progress of running calls: published to observers in this process, never recorded."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class CallProgress:
    """The last progress report of a call."""

    goal_id: str
    call_id: str
    value: Any
    """JSON."""

    @property
    def text(self) -> str:
        """The value for people: a text unchanged, anything else as JSON."""
        return self.value if isinstance(self.value, str) else orjson.dumps(self.value).decode()


ProgressListener = Callable[[CallProgress], None]


class ProgressFeed:
    """Notifies listeners of the progress of calls, on the event loop of the run.

    The listeners are called once in a turn of the event loop, with the newest value of each call. A call that reports
    more often needs no more memory, and its intermediate values are dropped.
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
                self._event_loop.call_soon_threadsafe(self._notify)

    def _notify(self) -> None:
        self._is_scheduled = False  # before the values are taken: later values schedule the next turn
        for call_id in list(self._newest):
            progress = CallProgress(self._goal_id, call_id, self._newest.pop(call_id))
            for listener in self._listeners:
                listener(progress)
