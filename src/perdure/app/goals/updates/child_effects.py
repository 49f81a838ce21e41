"""Reads the effects of the children of a goal, which a fork repeats; see kernel.history.repetition."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from perdure.errors import Damaged, NotFound
from perdure.kernel.calls.cancellation import CANCELLED
from perdure.kernel.calls.children import CHILD_FAILED
from perdure.kernel.events import Event
from perdure.kernel.fold import fold
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.forking import with_voided
from perdure.kernel.history.repetition import ChildEffects, Effects, child_of, done_after, effects_of

ReadHistory = Callable[[str], Awaitable[Sequence[Event]]]


async def read_child_effects(read: ReadHistory, calls: Iterable[CallState]) -> ChildEffects:
    """Return the effects of the children of some calls, and of their children, by the id of the child.

    The effects of a child whose history is missing or damaged are unknown.
    """
    found: dict[str, Effects] = {}
    for call in calls:
        goal_id = child_of(call)
        if goal_id is not None and goal_id not in found and _may_exist(call):
            found[goal_id] = await _effects(read, goal_id)
    return found


async def read_done_after(read: ReadHistory, goal: str, seq: int) -> Sequence[str]:
    """Return the `once` steps of a goal and of its children after an event, which a fork repeats.

    For a damaged history, the list is empty.
    """
    try:
        state = fold(await read(goal))
        children = await read_child_effects(read, state.calls.values())
        return done_after(state, seq, children)
    except Damaged:
        return []


async def _effects(read: ReadHistory, goal_id: str) -> Effects:
    try:
        state = with_voided(await read(goal_id))
    except NotFound:
        return Effects(unresolved=("it has no history: it was deleted, or never created",))
    except Damaged:
        return Effects(unresolved=("its history is damaged",))
    return effects_of(state, await read_child_effects(read, state.calls.values()))


def _may_exist(call: CallState) -> bool:
    """Return whether the child of a call can have been created: some calls failed because it could not."""
    error = call.outcome.error if call.outcome is not None else None
    return error is None or error.code in (CHILD_FAILED, CANCELLED)
