"""Begins the calls of requests of a flow: the first attempt, and the next one when it is due."""

from perdure.kernel.events import Action, ToolCall
from perdure.kernel.fold import GoalState
from perdure.minds.flow.execution.progress import Progress
from perdure.minds.step_status import status_of_step
from perdure.text.moments import iso


def begin_fresh(progress: Progress, state: GoalState, now_us: int) -> tuple[list[Action], list[ToolCall], list[int]]:
    """Return the actions, unrecorded calls and wake-up times of new requests and of attempts that are due."""
    fresh, progress.fresh = progress.fresh, []
    actions: list[Action] = []
    unrecorded: list[ToolCall] = []
    wakes: list[int] = []
    for request in fresh:
        found = status_of_step(state, request.step, request.retry)
        if found.status not in ("pending", "retry") or request.attempts_begun > found.attempt:
            continue
        if found.is_elapsed and _awaits_decision(state):
            progress.fresh.append(request)  # it does not time out while a person decides on the retry
            continue
        due_us = found.due_us(now_us) if found.status == "retry" else now_us
        if due_us > now_us:
            progress.fresh.append(request)
            wakes.append(due_us)
            continue
        request.attempts_begun = found.attempt + 1
        request.late_error = found.error if found.is_too_late(now_us) else None
        action = request.action(found.attempt + 1, lambda seconds: iso(now_us + round(seconds * 1e6)))
        if isinstance(action, ToolCall) and action.effect == "pure":
            unrecorded.append(action)
        else:
            actions.append(action)
    return actions, unrecorded, wakes


def _awaits_decision(state: GoalState) -> bool:
    """Return whether a call that the last retry of the goal reopened waits for a decision."""
    reopened = state.reopenings[-1].unknown if state.reopenings else ()
    return any(call_id in state.open_calls for call_id in reopened)
