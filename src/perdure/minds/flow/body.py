"""The task in which the function of a flow runs: its context, its end, and what is done when it does not end."""

import asyncio
import logging
from contextvars import Context, copy_context

from perdure.errors import Invalid
from perdure.kernel.calls.tasks import leave_alone
from perdure.kernel.events import Termination, encode
from perdure.minds.flow.current import STEP
from perdure.minds.flow.execution.progress import Progress
from perdure.minds.flow.goal import Goal
from perdure.minds.flow.requests import BRANCH, Branch
from perdure.minds.flow.steps.endings import ending_of
from perdure.minds.flow.steps.user_errors import is_interrupt

_UNWINDING_S = 10.0
"""How long a function may take to leave its `finally` blocks."""

_LEFT_ALONE: "list[asyncio.Task[None]]" = []
"""Bodies of flows that do not end. They are never freed: their code would be entered once more for that, and would run
outside of any event loop."""

log = logging.getLogger(__name__)


def context_of(branch: Branch) -> Context:
    """Return the context of variables in which a function runs."""
    context = copy_context()
    context.run(BRANCH.set, branch)
    context.run(STEP.set, None)  # a step of another goal may have started this one
    return context


def is_of(owner: object, context: Context) -> bool:
    """Return whether a callback runs in the context of a function that a mind runs."""
    branch = context.get(BRANCH)
    return branch is not None and branch.owner is owner


def ending(error: BaseException, progress: Progress, path: str) -> Termination:
    """Return how the function ended that raised: an end that can be recorded, whatever the exception does."""
    try:
        calls = progress.state.calls.values() if progress.state is not None else ()
        end = ending_of(error, path, {call.call.step for call in calls})
        encode(end)
    except BaseException as other:
        if is_interrupt(other):
            raise
        log.exception("the exception that %s raised cannot be described", path)
        return Termination("fatal_error", "The flow raised an exception that cannot be described.")
    return end


async def require_nothing_open(goal: Goal, progress: Progress) -> None:
    """Check that the function has awaited all that it began.

    Raises: Invalid
    """
    if progress.callbacks is not None:
        await progress.callbacks.let_others_rest()  # a task that it left behind asks for its step now
    goal.unawaited.require_none()
    for step, request in progress.requests.items():
        if not request.is_cancelled:
            raise Invalid(f"The flow returned while {step} was in flight: await it, or use goal.gather.")


def _leave_unended(progress: Progress, path: str) -> None:
    """Close the callbacks of a function that was cancelled; if it still runs, leave it alone for ever."""
    if progress.callbacks is not None:
        progress.callbacks.close()
    body = progress.body
    if body is not None and not body.done():
        leave_alone(body)
        _LEFT_ALONE.append(body)
        log.warning("the flow %s does not let itself be unwound; it is left alone", path)


async def unwind(progress: Progress, path: str) -> None:
    """Cancel the function and what it waits for; wait until it has left its `finally` blocks, but not for ever."""
    if progress.body is None:
        return
    progress.body.cancel()
    for request in list(progress.requests.values()):
        request.answer.cancel()
        if request.ended is not None and not request.ended.done():
            request.ended.set_result(None)
    try:
        await asyncio.wait([progress.body], timeout=_UNWINDING_S)
    finally:
        _leave_unended(progress, path)
