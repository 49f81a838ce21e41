"""How far one run of a flow has come: what the parts of its mind share."""

import asyncio
from dataclasses import dataclass, field

from perdure.kernel.events import Termination
from perdure.kernel.fold import GoalState
from perdure.minds.flow.execution.event_loop import FlowCallbacks
from perdure.minds.flow.execution.recorded_steps import Recorded
from perdure.minds.flow.requests import Request


@dataclass(slots=True)
class Progress:
    """What the function has asked for, what of the history it has got, and whether it has ended."""

    state: GoalState | None = None
    """The history as the mind was given it last; None before the function runs."""
    callbacks: FlowCallbacks | None = None
    body: "asyncio.Task[None] | None" = None
    end: Termination | None = None
    recorded: Recorded | None = None
    """What the history had when the goal was resumed; None in the first run."""
    is_replaying: bool = False
    is_closed: bool = False
    requests: dict[str, Request] = field(default_factory=dict)
    """What the function waits for, by step; a cancelled request stays until the end of its call is delivered."""
    asked: set[str] = field(default_factory=set)
    """All steps that the function has asked for."""
    fresh: list[Request] = field(default_factory=list)
    """Requests without an open call: to be begun, or to be tried again."""
    cancelled: set[str] = field(default_factory=set)
    """The steps of cancelled requests whose calls are not delivered as ended yet."""
    delivered: int = 0
    """How many of the settled calls of the state were delivered."""
    reached_us: int = 0
    """How far a function that is run again has come, by the clock of the first run."""
    now_us: int = 0
    """The time of the newest event that the function knows of."""
    active_s: float = 0.0
    """When the function did something last, by the clock of the event loop."""

    def came(self, state: GoalState) -> tuple[int, int]:
        """Return how far a function that is run again came: the steps and the outcomes that are left."""
        return (0 if self.recorded is None else self.recorded.count_left), len(state.settled) - self.delivered

    def note_activity(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note that the function did something, or got something."""
        self.active_s, callbacks = loop.time(), self.callbacks
        if callbacks is not None:
            callbacks.note_activity()
