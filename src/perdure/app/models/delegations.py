"""The delegations of one goal: its calls that start a child, and the limits of each child."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.app.models.delegate import DELEGATE, MAX_DEPTH, MOST_CHILDREN, child_limits, delegated_goal
from perdure.app.wire.goal_view import GoalView
from perdure.errors import Exhausted
from perdure.kernel.calls.children import TOO_DEEP
from perdure.kernel.events import Limits, ToolCall, ToolError, ToolOutput
from perdure.kernel.fold import GoalState

if TYPE_CHECKING:
    from perdure.app.goals.goals import Goals
    from perdure.app.goals.new_goal import NewGoal

TOO_MANY = "too_many"
"""The error code of a call whose child is not started, because the goal has as many as it can have."""


class Delegations:
    """Admits the calls of a goal that delegate; `known` are the children that it has already."""

    def __init__(self, goals: "Goals", parent: GoalState, known: Sequence[GoalView], depth: int) -> None:
        self._goals = goals
        self._parent = parent
        self._known = known
        self._depth = depth
        self._limits: dict[str, Limits] = {}

    async def admit(self, calls: Sequence[ToolCall]) -> tuple[list[ToolCall], list[ToolOutput]]:
        """Return the calls that start a child, those of flows among them, and the outcomes of the others."""
        asked = [call for call in calls if call.tool == DELEGATE]
        if not asked:
            return [*calls], []
        refused = {call.call_id: self._too_deep() for call in asked} if self._depth >= MAX_DEPTH else {}
        if not refused:
            room = max(MOST_CHILDREN - len(self._known), 0)
            refused = {call.call_id: self._too_many() for call in asked[room:]}
            refused |= await self._share(asked[:room])
        outcomes = [ToolOutput(call_id, ok=False, error=error) for call_id, error in refused.items()]
        return [call for call in calls if call.call_id not in refused], outcomes

    async def new_goal(self, call: ToolCall) -> "NewGoal":
        """Return the goal of an admitted call. See `delegated_goal`."""
        return await delegated_goal(self._goals.model_goals, self._parent, call, self._limits[call.call_id])

    async def _share(self, calls: Sequence[ToolCall]) -> dict[str, ToolError]:
        """Set the limits of the children of calls; return the errors of those for which nothing is left."""
        held = [(await self._goals.state(child.id)).limits for child in self._known if not child.is_final]
        refused: dict[str, ToolError] = {}
        for call in calls:
            try:
                self._limits[call.call_id] = child_limits(self._parent, held, call, len(calls))
            except Exhausted as error:
                refused[call.call_id] = ToolError(error.code, f"The child was not started. {error.detail}")
        return refused

    def _too_deep(self) -> ToolError:
        why = f"Goals can delegate at most {MAX_DEPTH} deep, and this goal is at depth {self._depth}."
        return ToolError(TOO_DEEP, f"The child was not started. {why} Do it in this goal.")

    def _too_many(self) -> ToolError:
        why = f"A goal can have at most {MOST_CHILDREN} children. Do it in this goal."
        return ToolError(TOO_MANY, f"The child was not started. {why}")
