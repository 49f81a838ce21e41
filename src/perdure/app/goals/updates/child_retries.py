"""Reopens the failed children of a failed goal before its retry, or explains why that is impossible."""

from contextlib import suppress
from typing import TYPE_CHECKING

from perdure.app.goals.arguments.run_options import Reopening, RunOptions
from perdure.app.goals.updates.child_effects import read_child_effects
from perdure.app.wire.goal_view import GoalView
from perdure.errors import NotFound
from perdure.kernel.calls.cancellation import CANCELLED
from perdure.kernel.calls.children import CHILD_FAILED, child_goal_id, child_name, child_of
from perdure.kernel.calls.cleanup import is_cancelled_by_parent
from perdure.kernel.events import ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.reopening import NotRetried, plan_continuation, plan_retry
from perdure.kernel.history.repetition import child_effects
from perdure.kernel.ports import Owned, StateStore

if TYPE_CHECKING:
    from perdure.app.goals.goals import Goals
    from perdure.app.workers.runner import Runner


class ChildRetries:
    """Reopens the failed children of failed goals."""

    def __init__(self, goals: "Goals", store: StateStore, runner: "Runner") -> None:
        self._goals = goals
        self._store = store
        self._runner = runner

    async def reopen_failed(self, state: GoalState, again: Reopening) -> None:
        """Reopen the children whose failure ended a failed goal, and their failed children, before the goal itself.

        Raises: NotRetried, which names the child, when one cannot be retried; nothing is reopened then. Damaged.
        """
        failed = await self._failed_children(state)
        for child in reversed(failed):
            reopening = Reopening(reason=again.reason, by=again.by, policy=again.policy)
            with suppress(Owned):  # another caller retries it
                await self._runner.enqueue_reopened(child.id, RunOptions(queue=child.summary.queue), reopening)

    async def _failed_children(self, state: GoalState) -> list[GoalView]:
        """Return the failed goals below a failed goal that its retry reopens, the nearest first."""
        found: list[GoalView] = []
        for call_id in plan_retry(state, by="person").again:
            call = state.calls[call_id]
            if not call.is_child or _error_code(call) not in (CHILD_FAILED, CANCELLED):
                continue  # it is a step, or its child was never created
            if not _is_own_child(state, call):
                await self._require_no_effects(state, call)
            elif _error_code(call) == CANCELLED:
                await self._require_continuable(state.goal_id, call)
            else:
                child = await self._child_to_retry(state.goal_id, child_of(call))
                if child is not None and child.state is not None:
                    found += [child, *await self._failed_children(child.state)]
        return found

    async def _child_to_retry(self, parent_id: str, goal_id: str) -> GoalView | None:
        """Return a failed child; None for one that was retried by hand and is done or unfinished.

        Raises: NotRetried when it cannot be retried.
        """
        try:
            child = await self._goals.look_into(await self._goals.get(goal_id))
            if child.status not in ("failed", "cancelled"):
                return None
            if child.state is not None:
                plan_retry(child.state, by="person")
        except NotRetried as error:
            what = f"{parent_id} cannot be retried, because its child cannot: {error.what}"
            raise NotRetried(what, goal_id, error.before) from error
        except NotFound as error:
            raise NotRetried(
                f"{parent_id} cannot be retried, because its child does not exist: {error.detail}", goal_id
            ) from error
        return child

    async def _require_continuable(self, parent_id: str, call: CallState) -> None:
        """Check that a child which the flow has cancelled can continue when the flow calls it again.

        It is reopened then, and not now: the flow may cancel it again for the same reason as before.

        Raises: NotRetried
        """
        with suppress(NotFound):  # it was cancelled before it was created
            child = await self._goals.state(child_of(call))
            if not is_cancelled_by_parent(child):
                return
            try:
                plan_continuation(child)
            except NotRetried as error:
                what = f"{parent_id} cannot be retried, because its child cannot be continued: {error.what}"
                raise NotRetried(what, parent_id, call.call.step) from error

    async def _require_no_effects(self, state: GoalState, call: CallState) -> None:
        """Check that nothing is repeated when a fork starts a child of its own for one that the original has started.

        Raises: NotRetried, which offers a fork that names what is repeated.
        """
        inside = child_effects(call, await read_child_effects(self._store.load, [call])).all
        if inside:
            what = (
                f"{state.goal_id} cannot be retried: {child_of(call)}, the child of {call.call.step}, was started by"
                f" the goal that it was forked from. A retry would start another child, which repeats"
                f" {', '.join(inside)}."
            )
            raise NotRetried(what, state.goal_id, call.call.step)


def _is_own_child(state: GoalState, call: CallState) -> bool:
    """Return whether a call is of a child that this goal started itself, and not the goal that it was forked from."""
    arguments = call.call.arguments if isinstance(call.call, ToolCall) else {}
    return child_of(call) == child_goal_id(state.goal_id, call.call.step, child_name(arguments))


def _error_code(call: CallState) -> str | None:
    error = call.outcome.error if call.outcome is not None else None
    return None if error is None else error.code
