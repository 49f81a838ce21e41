"""The task that runs the function of a flow: its context, its end, and its unwinding."""

import asyncio
import logging
from contextvars import Context, copy_context
from typing import Any

from perdure.errors import Invalid
from perdure.kernel.events import Termination, encode
from perdure.minds.flow.current import STEP
from perdure.minds.flow.execution.event_loop import FlowCallbacks
from perdure.minds.flow.execution.progress import Progress
from perdure.minds.flow.goal import Goal
from perdure.minds.flow.requests import BRANCH, Branch
from perdure.minds.flow.steps.endings import ending_of
from perdure.minds.flow.steps.user_errors import is_interrupt
from perdure.tasks import leave_alone

_UNWINDING_S = 10.0
"""How long a function may take to leave its `finally` blocks."""
_PATIENCE_S = 0.1
"""How long a function that is cancelled may take to cancel its own tasks."""

_LEFT_ALONE: "list[asyncio.Task[None]]" = []
"""Bodies of flows that do not end. They stay referenced: a coroutine that is freed is entered once more, outside of any
event loop."""

log = logging.getLogger(__name__)


def context_of(branch: Branch) -> Context:
    """Return the context variables for the function of a flow."""
    context = copy_context()
    context.run(BRANCH.set, branch)
    context.run(STEP.set, None)  # a step of another goal may have started this one
    return context


def is_of(owner: object, context: Context) -> bool:
    """Return whether a context belongs to the function of a mind."""
    branch = context.get(BRANCH)
    return branch is not None and branch.owner is owner


def ending(error: BaseException, progress: Progress, path: str) -> Termination:
    """Return the end of a function that raised, in a form that can be recorded whatever the exception does."""
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
    """Check that the function has awaited every call that it began.

    Raises: Invalid
    """
    if progress.callbacks is not None:
        await progress.callbacks.let_others_rest()  # a task that was not awaited may still ask for a step
    goal.unawaited.require_none()
    for step, request in progress.requests.items():
        if not request.is_cancelled:
            raise Invalid(f"The flow returned while {step} was in flight: await it, or use goal.gather.")


def _leave_unended(progress: Progress, path: str) -> None:
    """Close the callbacks of a cancelled function; abandon it if it still runs."""
    if progress.callbacks is not None:
        progress.callbacks.close()
    if progress.timers is not None:
        progress.timers.close()
    body = progress.body
    if body is not None and not body.done():
        leave_alone(body)
        _LEFT_ALONE.append(body)
        log.warning("the flow %s did not end after cancellation; abandoned", path)
    elif body is not None and not body.cancelled() and (error := body.exception()) is not None:
        log.debug("the flow %s raised during cancellation", path, exc_info=error)


async def unwind(progress: Progress, path: str) -> None:
    """Cancel the function and its requests; wait for its `finally` blocks, for a limited time."""
    if progress.body is None:
        return
    if progress.timers is not None:
        progress.timers.release()
    progress.body.cancel()
    for request in list(progress.requests.values()):
        request.answer.cancel()
        if request.ended is not None and not request.ended.done():
            request.ended.set_result(None)
    try:
        await _wait_until_unwound(progress.body, progress.callbacks)
    finally:
        _leave_unended(progress, path)


async def _wait_until_unwound(body: "asyncio.Task[None]", callbacks: FlowCallbacks | None) -> None:
    """Wait for the end of a cancelled body, and cancel tasks that no task group cancels.

    A task group whose member has failed cancels its members once, and ignores a later cancel. So a task that a member
    started in its `finally` afterwards would never be cancelled, and the group would wait for it for ever. A member
    that was cancelled then may wait in its `finally` for what does not come any more: it has half of the time.
    """
    loop = asyncio.get_running_loop()
    until_s, cancelled = loop.time() + _UNWINDING_S, set[asyncio.Task[Any]]()
    while not body.done() and (left_s := until_s - loop.time()) > 0:
        await asyncio.wait([body], timeout=min(_PATIENCE_S, left_s))
        is_late = left_s < _UNWINDING_S / 2
        for task in () if callbacks is None else callbacks.waiting_tasks():
            if task not in cancelled and (is_late or not task.cancelling()):
                cancelled.add(task)
                task.cancel()
