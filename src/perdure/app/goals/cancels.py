"""Cancelling goals: what is posted, and the cleanup of a goal that no worker of a queue runs."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from perdure.app.goals.arguments import validate
from perdure.app.wire.goal_view import GoalView
from perdure.errors import PerdureError
from perdure.kernel.loop import Ran
from perdure.kernel.ports import Owned

CLEANING_UP = "It is cancelled, and ends when its flow has cleaned up."


def cancel_payload(reason: str | None, *, now: bool, by: str | None = None) -> dict[str, Any]:
    """Return what is posted to cancel a goal; `by` is who does that, if not a person.

    Raises: Invalid when the reason is not a text that can be stored.
    """
    validate.reason(reason)
    payload = {"reason": reason, "now": now or None, "by": by}
    return {name: value for name, value in payload.items() if value is not None}


async def clean_up(goal: GoalView, go_on: Callable[[str], Awaitable[Ran]]) -> GoalView | None:
    """Run the cleanup of a cancelled goal that no worker runs, and return the goal as it is then.

    None when there is nothing to run here. A goal whose code is not here, or is not what wrote its history, stays
    cancelled and interrupted; its `note` says why.
    """
    if goal.is_final or goal.is_running or goal.status != "interrupted":
        return None
    try:
        ran = await go_on(goal.id)
    except Owned:
        return None  # a worker has claimed it meanwhile, and runs the cleanup
    except PerdureError as error:
        return replace(goal, note=f"{CLEANING_UP} That is not possible here: {error.detail}")
    return replace(GoalView.of_state(ran.state, queue=ran.queue), termination=ran.state.termination)
