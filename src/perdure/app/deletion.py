"""Deletes goals together with their finished children."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.app.views import GoalView
from perdure.errors import Conflict, NotFound
from perdure.kernel.deletion import has_fork, has_unfinished_child, is_child_of_unfinished, not_finished
from perdure.kernel.ports import GoalFilter, StateStore

if TYPE_CHECKING:
    from perdure.app.goal_reader import GoalReader


class GoalDeletion:
    """Deletes the goals of a home."""

    def __init__(self, goals: "GoalReader", store: StateStore) -> None:
        self._goals = goals
        self._store = store

    async def require_deletable(self, goal: GoalView) -> Sequence[GoalView]:
        """Return what goes with a goal, the goal itself last: each child comes before its parent.

        Raises: Conflict when the goal or a child has not finished or has a fork, or its parent has not finished.
        """
        if not goal.is_final:
            raise not_finished(goal.id)
        await self._require_parent_finished(goal)
        return await self._tree(goal)

    async def delete(self, goal: GoalView) -> None:
        """Delete a goal and its children. A call that was cut short can be repeated.

        Raises: as `require_deletable`.
        """
        for each in await self.require_deletable(goal):
            await self._store.delete(each.id)

    async def _tree(self, goal: GoalView) -> list[GoalView]:
        forks = await self._store.list_goals(where=GoalFilter(forked_from=goal.id), limit=1)
        if forks:
            raise has_fork(goal.id, forks[0].goal_id)
        found: list[GoalView] = []
        for child in await self._goals.children_of(goal.id):
            if not child.is_final:
                raise has_unfinished_child(goal.id, child.id)
            found += await self._tree(child)
        return [*found, goal]

    async def _require_parent_finished(self, goal: GoalView) -> None:
        """An unfinished parent may still read the end of its child."""
        parent = goal.summary.parent
        if parent is None:
            return
        try:
            is_final = (await self._goals.get(parent.goal_id)).is_final
        except (NotFound, Conflict):  # it was deleted
            return
        if not is_final:
            raise is_child_of_unfinished(goal.id, parent.goal_id)
