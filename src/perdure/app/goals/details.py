"""Reads a goal in detail: its history, its pending posts and its children."""

from collections.abc import Sequence
from dataclasses import replace

from perdure.app.goals.goals import Goals
from perdure.app.wire.goal_detail import GoalDetailView
from perdure.app.wire.goal_view import GoalView
from perdure.errors import Damaged, NotFound
from perdure.kernel.events import Event
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.replay import require_unchanged


async def read_detail(goals: Goals, goal: GoalView) -> GoalDetailView:
    """Return a goal in detail with its current history; an unfinished damaged goal is returned without it.

    Raises: NotFound; Damaged when it has ended, because its result cannot be read.
    """
    try:
        state = await goals.state(goal.id)
    except Damaged as error:
        if goal.is_final:
            raise
        return await _detail(goals, goal, None, error.detail)
    return await _detail(goals, goal, state, None)


async def detail_of(goals: Goals, state: GoalState) -> GoalDetailView:
    """Return a goal in detail, with an already folded state.

    Raises: NotFound
    """
    return await _detail(goals, await goals.get(state.goal_id), state, None)


async def salvage_detail(goals: Goals, goal: GoalView) -> tuple[GoalDetailView, Damaged | None]:
    """Return a goal in detail as far as its history is readable, and the damage of the rest.

    Raises: NotFound; Damaged when no event is readable.
    """
    events = await goals.history(goal.id)
    damage = _damage(events, goal.id)
    return await _detail(goals, goal, fold(events), None if damage is None else damage.detail), damage


async def _detail(goals: Goals, goal: GoalView, state: GoalState | None, damage: str | None) -> GoalDetailView:
    seen = goal
    if state is not None:
        seen = GoalView.of_state(state, is_running=goal.is_running, row=goal.summary)
        below = await goals.effects_below(state)
        seen = replace(seen, next_goals=await _next_goals(goals, seen, state), child_effects=below)
    children: Sequence[GoalView] = await goals.children_of(goal.id)
    return GoalDetailView(seen, await goals.pending(goal.id), children[::-1], damage)


async def _next_goals(goals: Goals, goal: GoalView, state: GoalState) -> Sequence[GoalView]:
    """Return the goals to act on next: the awaited descendants, or the open parent of an ended goal."""
    if goal.summary.waiting_for == "child":
        return await goals.children.waiting(state)
    if not goal.is_final or goal.summary.parent is None:
        return ()
    try:
        parent = await goals.look_into(await goals.get(goal.summary.parent.goal_id))
    except (NotFound, Damaged):
        return ()
    return () if parent.is_final or parent.is_running else (parent,)


def _damage(events: Sequence[Event], goal_id: str) -> Damaged | None:
    try:
        require_unchanged(events, goal_id)
    except Damaged as error:
        return error
    return None
