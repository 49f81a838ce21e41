"""The ports of commands for goals.

The two implementations are `Goals` of `perdure.app`, and `ServerGoals` over the client.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Unpack

from perdure.app.goals.values import Event, GoalState
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.resources.parameters import ForkPlace, GoalFilters


class GoalReader(Protocol):
    """Reads goals."""

    async def list(self, *, limit: int = 50, **filters: Unpack[GoalFilters]) -> Sequence[GoalView]:
        """Return the newest goals that match all filters."""
        ...

    async def get(self, goal_id: str) -> GoalView:
        """Return the goal with an id.

        Raises: NotFound
        """
        ...

    async def find(self, prefix: str) -> GoalView:
        """Return the goal with an id or a unique prefix of it.

        Raises: NotFound; Conflict
        """
        ...

    async def look_into(self, goal: GoalView) -> GoalView:
        """Return a goal with the state of its events and its exact next commands."""
        ...

    async def state(self, goal_id: str) -> GoalState:
        """Return the state of a goal, folded from its events."""
        ...

    async def history(self, prefix: str) -> Sequence[Event]:
        """Return all events of a goal."""
        ...


class GoalSteering(Protocol):
    """Posts decisions, signals and cancels to goals, and forks them."""

    async def decide(
        self,
        goal_id: str,
        decision: str,
        *,
        call_id: str | None = None,
        value: Any = None,
        shown_sha256: str | None = None,
    ) -> GoalView:
        """Settle an open call; an approval names what was shown."""
        ...

    async def signal(self, goal_id: str, name: str, payload: Any = None, *, key: str | None = None) -> GoalView:
        """Send a signal to a goal, which may wait for it now or later."""
        ...

    async def cancel(self, goal_id: str, *, reason: str | None = None, now: bool = False) -> GoalView:
        """Cancel a goal, and return it."""
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
        """Create a goal that continues from a point of another one."""
        ...


@dataclass(frozen=True)
class GoalPorts:
    """The goals of a home, or of a server."""

    reader: GoalReader
    steering: GoalSteering
