"""The cleanup of a flow after its goal was cancelled: its conditions, its grace, and how the goal ends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from perdure.kernel.calls.holding import release
from perdure.kernel.events import Body, Cancel, Released, Termination, ToolError
from perdure.kernel.fold import BY_PARENT, GoalState

PARENT = "parent"
"""The author of the cancel of a child whose parent no longer waits for it."""
GRACE_S = 60.0
"""How long a cleanup may take."""


def cancelled_by(state: GoalState, payload: Mapping[str, Any], *, is_running: bool) -> list[Body]:
    """Return the events that a posted cancel becomes: the start of a cleanup, or the end of the goal.

    A cancel with `now` ends the goal without its cleanup. Any other repeated cancel changes nothing about a cleanup,
    which may undo effects: a person repeats the command, and a parent that was resumed after a kill cancels its
    children again. A goal without any call, which no worker runs, has nothing to clean up. A cancel releases a goal
    from hold, because a person wants its cleanup to run.
    """
    reason, by, is_now = payload.get("reason"), payload.get("by", "person"), bool(payload.get("now"))
    if is_cleaning_up(state) and not is_now:
        return []
    has_cleanup = state.begun.mind.cleanup and (is_running or state.calls)
    if not has_cleanup or is_now:
        error = ToolError(BY_PARENT, "The parent cancelled it.") if by == PARENT else None
        skipped = _skipped(state) if has_cleanup else None
        return [Termination("cancelled", _joined(_detail(state, reason), skipped), error=error)]
    released: Sequence[Released] = release(state)
    return [*released, Cancel(by, reason)]


def is_cancelled_by_parent(state: GoalState) -> bool:
    """Return whether a goal was cancelled by the goal that started it."""
    end = state.termination
    if end is None or end.reason != "cancelled":
        return False
    by = None if state.cancel is None else state.cancel.by
    return by == PARENT or (end.error is not None and end.error.code == BY_PARENT)


def is_cleaning_up(state: GoalState) -> bool:
    """Return whether a goal was cancelled, and its flow has not cleaned up yet."""
    return state.cancel is not None and state.termination is None


class CleanupGrace:
    """The grace of the cleanup of one goal, in one run of the goal."""

    def __init__(self, grace_s: float, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._grace_us = round(grace_s * 1e6)
        self._began_us: int | None = None

    def due_us(self, state: GoalState) -> int | None:
        """Return when the grace of a cleanup ends; None when the goal does not clean up.

        It is measured from the cancel, across restarts. A goal that was cancelled while no worker had its code gets the
        whole grace: as long as the cancel is the last event, the cleanup begins with this run.
        """
        if not is_cleaning_up(state):
            return None
        if self._began_us is None:
            self._began_us = self._now_us() if state.head.seq == state.cancel_seq else state.cancel_us
        return self._began_us + self._grace_us

    def is_over(self, state: GoalState) -> bool:
        """Return whether the grace of a cancelled goal has passed."""
        due_us = self.due_us(state)
        return due_us is not None and due_us <= self._now_us()


def describe_cleanup(cancel: Cancel) -> str:
    """Describe why a goal that was cancelled has not ended."""
    why = "" if cancel.reason is None else f" ({cancel.reason})"
    return f"Cancelled by {cancel.by}{why}: its flow cleans up before the goal ends."


def end_of(state: GoalState, end: Termination) -> Termination:
    """Return the end to record for a goal. A cancelled goal ends as cancelled, whatever its flow does."""
    if state.cancel is None:
        return end
    match end.reason:
        case "cancelled":
            how = None
        case "done":
            how = "the flow returned after the cancel"
        case _:
            how = f"the cleanup failed: {end.detail or end.reason}"
    return replace(end, reason="cancelled", detail=_detail(state, how), value=None)


def overdue(state: GoalState, grace_s: float) -> Termination:
    """Return the end of a goal whose cleanup took too long."""
    return Termination("cancelled", _detail(state, f"the cleanup did not end within {grace_s:g} s"))


def _detail(state: GoalState, how: str | None) -> str | None:
    """Describe why a goal was cancelled and how its cleanup ended."""
    return _joined(None if state.cancel is None else state.cancel.reason, how)


def _joined(reason: str | None, how: str | None) -> str | None:
    return reason or how if reason is None or how is None else f"{reason} ({how})"


def _skipped(state: GoalState) -> str:
    """Describe the cleanup that a cancel with `now` skips."""
    has_begun = state.cancel is not None and state.head.seq > state.cancel_seq
    return "without the rest of its cleanup" if has_begun else "without the cleanup of its flow"
