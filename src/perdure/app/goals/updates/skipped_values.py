"""Validates the value that a person sets as the result of a skipped step, before it is recorded.

The function of a step is only known while the code of its flow runs. So the flow is replayed to the end of its history
on its own thread, without recording anything. If the code is not available, or does not reach the step in time, the
value is validated when it is delivered to the flow.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from perdure.app.workers.flow_threads import FlowThread
from perdure.app.workers.run_context import RunContexts
from perdure.errors import Invalid, PerdureError
from perdure.kernel.calls.toolbox import Toolbox
from perdure.kernel.events import Decision, ToolCall
from perdure.kernel.fold import GoalState

_WITHIN_S = 10.0

log = logging.getLogger(__name__)


async def require_fitting_value(contexts: RunContexts, state: GoalState, chosen: Decision) -> None:
    """Check that the value for a skipped step of a flow fits the return annotation of its function.

    Raises: Invalid; nothing is recorded then.
    """
    call = state.calls[chosen.call_id].call
    if (
        chosen.decision != "skip"
        or not isinstance(call, ToolCall)
        or call.tool != "step"
        or state.begun.mind.kind != "flow"
    ):
        return
    if chosen.value is None and call.returns is not None:  # recorded with the call: true without its code, too
        raise _value_is_missing(call.step, call.returns)
    try:
        fn = await _function_of(contexts, state, call.step)
    except (TimeoutError, PerdureError) as error:
        log.debug("the value for %s is validated when it is delivered: %s", call.step, error)
        return
    if fn is not None:
        _require_fitting(fn, call.step, chosen.value)


def _value_is_missing(step: str, returns: str) -> Invalid:
    needed = f"{step} returns a result that is not null, of type {returns}"
    return Invalid(f"{needed}: give it as JSON (--value). Nothing was recorded.")


def _require_fitting(fn: Callable[..., Any], step: str, value: Any) -> None:
    from perdure.minds.flow.values.values import (  # commands that only read do not need these
        needed_result,
        require_result,
    )

    returns = needed_result(fn)
    if value is None and returns is not None:
        raise _value_is_missing(step, returns)
    try:
        require_result(fn, value)
    except ValueError as error:
        what = f"The value for {step} does not fit what its function returns: {error}"
        raise Invalid(f"{what}. Nothing was recorded.") from error


async def _function_of(contexts: RunContexts, state: GoalState, step: str) -> Callable[..., Any] | None:
    """Return the function of a step that a flow waits for.

    Raises: NotFound when the code is not here; Conflict when it is not the code that the goal ran; Unavailable;
    TimeoutError when it blocks.
    """
    thread = FlowThread(state.goal_id)
    try:
        async with asyncio.timeout(_WITHIN_S):
            return await thread.run(_replay(contexts, state, step))
    finally:
        thread.close()


async def _replay(contexts: RunContexts, state: GoalState, step: str) -> Callable[..., Any] | None:
    from perdure.minds.flow.mind import FlowMind

    flow = contexts.find_flow(state.begun)
    if flow is None:
        return None
    mind = FlowMind(flow, state.begun.mind.args)
    try:
        await mind.prepare(state, Toolbox())
        return mind.function_of(step)
    finally:
        await mind.close()
