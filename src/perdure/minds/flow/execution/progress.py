"""The progress of one run of a flow, shared by the parts of its mind."""

import asyncio
from dataclasses import dataclass, field

from perdure.kernel.events import Termination
from perdure.kernel.fold import GoalState
from perdure.minds.flow.execution.event_loop import FlowCallbacks
from perdure.minds.flow.execution.recorded_steps import Recorded
from perdure.minds.flow.execution.timers.fired_timers import FiredTimers
from perdure.minds.flow.execution.timers.flow_timers import FlowTimers
from perdure.minds.flow.requests import Request


@dataclass(slots=True)
class Progress:
    """The requests of the function, the position in the history, and the end."""

    state: GoalState | None = None
    """The last state passed to the mind; None before the function runs."""
    callbacks: FlowCallbacks | None = None
    timers: FlowTimers | None = None
    fired: FiredTimers = field(default_factory=FiredTimers)
    body: "asyncio.Task[None] | None" = None
    end: Termination | None = None
    recorded: Recorded | None = None
    """The steps in the history at the resume; None in the first run."""
    is_replaying: bool = False
    is_closed: bool = False
    requests: dict[str, Request] = field(default_factory=dict)
    """The requests of the function, by step; a cancelled one stays until the end of its call is delivered."""
    asked: set[str] = field(default_factory=set)
    """All steps that the function has asked for."""
    fresh: list[Request] = field(default_factory=list)
    """Requests without an open call: their first or next attempt is to begin."""
    cancelled: set[str] = field(default_factory=set)
    """The steps of cancelled requests; the ends of their calls are not delivered yet."""
    delivered: int = 0
    """The number of settled calls of the state that were delivered."""
    from_history: int = 0
    """The number of settled calls at the resume; timers recorded later were fired in this run."""
    times_left: int = 0
    """How often the recorded timer that is delivered is still to be fired."""
    reached_us: int = 0
    """The position of a replay, as a time in the first run."""
    now_us: int = 0
    """The time of the newest event that was delivered to the function."""
    active_s: float = 0.0
    """The time of the last activity of the function, by the clock of the event loop."""

    news: "asyncio.Future[None] | None" = None
    """Done at the next activity of the function; None if nothing waits for it."""

    def next_news(self) -> "asyncio.Future[None]":
        """Return a future that is done at the next activity of the function, or when one of its timers expires."""
        self.news = asyncio.get_running_loop().create_future()
        return self.news

    def tell_news(self) -> None:
        """Wake what waits for news of the function."""
        if self.news is not None and not self.news.done():
            self.news.set_result(None)

    def note_activity(self, loop: asyncio.AbstractEventLoop) -> None:
        """Record an activity of the function: it did or received something."""
        if self.news is not None:
            self.tell_news()
        self.active_s, callbacks = loop.time(), self.callbacks
        if callbacks is not None:
            callbacks.note_activity()
