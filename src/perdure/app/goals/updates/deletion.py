"""Deletes goals together with their finished children."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.app.wire.goal_view import GoalView
from perdure.errors import Conflict, Damaged, NotFound
from perdure.kernel.history.deletion import (
    damaged_and_not_finished,
    has_fork,
    has_unfinished_child,
    is_child_of_unfinished,
    not_finished,
)
from perdure.kernel.ports import GoalFilter, StateStore

if TYPE_CHECKING:
    from perdure.app.goals.lists import GoalLists


class GoalDeletion:
    """Deletes the goals of a home; with `force`, also unfinished ones whose history is damaged."""

    def __init__(self, goals: "GoalLists", store: StateStore, *, force: bool = False) -> None:
        self._goals = goals
        self._store = store
        self._is_forced = force

    async def require_deletable(self, goal: GoalView) -> Sequence[GoalView]:
        """Return all goals that are deleted with a goal: each child before its parent, the goal itself last.

        Raises: Conflict when the goal or a child has not finished or has a fork, or its parent has not finished.
        """
        if not goal.is_final and not await self._is_unrecoverable(goal):
            raise await self._refusal(goal)
        await self._require_parent_finished(goal)
        return await self._tree(goal)

    async def delete(self, goal: GoalView) -> None:
        """Delete a goal and its children. A call that was cut short can be repeated.

        Raises: as `require_deletable`.
        """
        for each in await self.require_deletable(goal):
            await self._store.delete(each.id, even_unfinished=not each.is_final)

    async def _tree(self, goal: GoalView) -> list[GoalView]:
        forks = await self._store.list_goals(where=GoalFilter(forked_from=goal.id), limit=1)
        if forks:
            raise has_fork(goal.id, forks[0].goal_id)
        goals: list[GoalView] = []
        for child in await self._goals.children_of(goal.id):
            if not child.is_final and not await self._is_unrecoverable(child):
                raise has_unfinished_child(goal.id, child.id)
            goals += await self._tree(child)
        return [*goals, goal]

    async def _is_unrecoverable(self, goal: GoalView) -> bool:
        """Return whether an unfinished goal may be deleted: no worker runs it, and none can, because it is damaged."""
        return self._is_forced and not goal.is_running and await self._is_damaged(goal)

    async def _is_damaged(self, goal: GoalView) -> bool:
        try:
            await self._goals.state(goal.id)
        except Damaged:
            return True
        return False

    async def _refusal(self, goal: GoalView) -> Conflict:
        is_damaged = not goal.is_running and await self._is_damaged(goal)
        return damaged_and_not_finished(goal.id) if is_damaged else not_finished(goal.id)

    async def _require_parent_finished(self, goal: GoalView) -> None:
        """Check that the parent has finished, because an unfinished parent may still read the end of its child."""
        parent = goal.summary.parent
        if parent is None:
            return
        try:
            is_final = (await self._goals.get(parent.goal_id)).is_final
        except (NotFound, Conflict):  # it was deleted
            return
        if not is_final:
            raise is_child_of_unfinished(goal.id, parent.goal_id)
