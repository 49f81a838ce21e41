"""What commands need of the goals that they work with: those of the home that they open, or of a server.

The two implementations are `Goals` of `perdure.app`, and `ServerGoals` over the client.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Unpack

from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.resources.parameters import ForkPlace, GoalFilters
from perdure.kernel.events import Event
from perdure.kernel.fold import GoalState


class GoalReader(Protocol):
    """The goals, as far as they are read."""

    async def list(self, *, limit: int = 50, **filters: Unpack[GoalFilters]) -> Sequence[GoalView]:
        """Return the newest goals that match all filters."""
        ...

    async def get(self, goal_id: str) -> GoalView:
        """Return the goal with an id.

        Raises: NotFound
        """
        ...

    async def find(self, prefix: str) -> GoalView:
        """Return the goal with an id, or with the only one that begins so.

        Raises: NotFound; Conflict
        """
        ...

    async def look_into(self, goal: GoalView) -> GoalView:
        """Return a goal with what its events say, and its exact next commands."""
        ...

    async def state(self, goal_id: str) -> GoalState:
        """Return what the events of a goal say."""
        ...

    async def history(self, prefix: str) -> Sequence[Event]:
        """Return all events of a goal."""
        ...


class GoalSteering(Protocol):
    """A goal, as far as it is told something."""

    async def decide(self, goal_id: str, decision: str, *, call_id: str | None = None, value: Any = None) -> GoalView:
        """Settle an open call."""
        ...

    async def signal(self, goal_id: str, name: str, payload: Any = None, *, key: str | None = None) -> GoalView:
        """Tell a goal something that it waits for, or will."""
        ...

    async def cancel(self, goal_id: str, *, reason: str | None = None, now: bool = False) -> GoalView:
        """End a goal, and return it as it is then."""
        ...

    async def fork(
        self,
        goal_id: str,
        at: int | None = None,
        *,
        take_key: bool = False,
        policy: str | None = None,
        **place: Unpack[ForkPlace],
    ) -> GoalView:
        """Make a goal that continues from a point of another one."""
        ...


@dataclass(frozen=True)
class GoalPorts:
    """The goals of a home, or of a server."""

    reader: GoalReader
    steering: GoalSteering
