"""The tool that runs the functions of steps of a flow."""

import asyncio
import copy
import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from perdure.errors import Invalid, Unavailable
from perdure.kernel.events import Happened, ToolError, ToolOutput
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.frozen import constructor
from perdure.kernel.recovery import BAD_RESULT, LOST_RESULT, WITHOUT_RESULT
from perdure.kernel.tool import CallContext, CallUsage, Check, KnownOutput, ToolSpec
from perdure.minds.flow.current import STEP, CurrentStep
from perdure.minds.flow.execution.progress import Progress
from perdure.minds.flow.requests import NO_FORKS, Request, StepForks, StepFunction
from perdure.minds.flow.steps.checks import answer_of
from perdure.minds.flow.steps.step_calls import DIRECT, StepCalls
from perdure.minds.flow.steps.step_thread import BrokenStart, StepThread
from perdure.minds.flow.steps.user_errors import failure_of, is_interrupt
from perdure.minds.flow.values.values import known_result_to_json, needs_result, result_to_json
from perdure.minds.step_status import NOT_HAPPENED, TIMEOUT, wait_before_next_us

_LONGEST_REASON = 2_000

log = logging.getLogger(__name__)
T = TypeVar("T")
_tool_output = constructor(ToolOutput)


class _Ended(NamedTuple):
    """The result or error of a step; whether it happened, if its check was asked because it raised."""

    output: Any = None
    error: ToolError | None = None
    happened: Happened | None = None


class StepTool:
    """Runs steps of a flow in this process. See Tool."""

    spec = ToolSpec(
        "step",
        "Runs a function that a flow asks for as a step.",
        {"type": "object"},
        "once",
        declares_effect=True,
    )

    def __init__(self, progress: Progress, forks: StepForks = NO_FORKS, calls: StepCalls = DIRECT) -> None:
        self._progress = progress
        self._requests: Mapping[str, Request] = progress.requests
        self._forks = forks
        self._calls = calls
        self._threads: dict[str, StepThread] = {}
        """The threads of calls whose function is not async. A thread cannot be ended, and may outlive its call."""

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """See Tool.validate. The arguments come from the flow itself, and are already validated."""

    async def run(self, context: CallContext) -> ToolOutput:
        """See Tool.run. An exception of the function is a failure; an internal error after its start is not caught.

        Raises: Unavailable when the call is cancelled while its function runs on a thread, and may have its effect.
        """
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        self._enter_context(context)
        current = current_of(context)
        STEP.set(current)
        self._forks.begin(context.goal_id, context.call.call_id)
        try:
            output, error, happened = await self._try(context)
        except BaseException:
            context.note_used(CallUsage(*current.end()))
            raise
        self._forks.leave(context.goal_id, context.call.call_id)
        usage, meta = current.end()
        duration_ms = round((loop.time() - begun_s) * 1000)
        call_ = context.call
        only_pure: dict[str, Any] = {}
        if call_.effect == "pure":
            only_pure = {"step": call_.step, "digest": call_.arguments["digest"], "effect": "pure"}
        outcome = _tool_output(
            call_.call_id,
            ok=error is None,
            output=output,
            error=error,
            duration_ms=duration_ms,
            usage=usage,
            meta=meta,
            happened=happened,
            **only_pure,
        )
        return outcome if error is None else self._with_next_attempt(context, outcome)

    def _with_next_attempt(self, context: CallContext, outcome: ToolOutput) -> ToolOutput:
        """Return a failure with the time until the next attempt, for people: the retry policy is not recorded."""
        state, call = self._progress.state, context.call
        request = self._requests.get(call.step)
        if state is None or request is None:
            return outcome
        tried = state.calls.get(call.call_id) or CallState(call, 0, state.updated_us)
        wait_us = wait_before_next_us(state, tried, outcome, request.retry)
        return replace(outcome, retry_after_s=wait_us / 1e6) if wait_us else outcome

    def _enter_context(self, context: CallContext) -> None:
        """Set the context variables to those of the flow when it requested the step."""
        request = self._requests.get(context.call.step)
        if request is not None and isinstance(request.wanted, StepFunction):
            for variable, value in request.wanted.context.items():
                variable.set(value)

    async def _try(self, context: CallContext) -> _Ended:
        """Run the function of a step, and return its result or error."""
        try:
            request, work = self._requested(context)
        except Invalid as raised:
            return _Ended(error=failure_of(raised, context.call.call_id))
        if request.late_error is not None and request.attempts_begun == context.call.attempt:
            return _Ended(error=replace(request.late_error, retryable=False))
        left_s = _left_s(context, request, work)
        if left_s is not None and left_s <= 0:
            return await self._timed_out(context, request, work)
        return await self._call(context, request, work, left_s)

    async def _call(self, context: CallContext, request: Request, work: StepFunction, left_s: float | None) -> _Ended:
        try:
            async with self._calls.timeout(left_s) as limit:
                result = await call(
                    self._calls.function(work.fn), work, partial(self._threads.__setitem__, context.call.call_id)
                )
        except asyncio.CancelledError as raised:
            if not _is_being_cancelled():
                failure = self._failure(raised, context, request)
                return await self._failed(replace(failure, message="The step raised it itself."), context, work)
            await self.reap(context.goal_id, context.call.call_id)
            raise
        except BrokenStart:
            raise
        except BaseException as raised:
            if is_interrupt(raised):
                raise
            if issubclass(type(raised), TimeoutError) and limit.expired():
                await self._forks.end(context.goal_id, context.call.call_id)
                return await self._timed_out(context, request, work)
            return await self._failed(self._failure(raised, context, request), context, work)
        return self._stored(work, result, context)

    def _stored(self, work: StepFunction, result: Any, context: CallContext) -> _Ended:
        """Return the result of a step in its recorded form, or the error that it cannot be stored."""
        try:
            return _Ended(result_to_json(work.fn, result, f"The result of {context.call.step}"))
        except Invalid as raised:
            message = f"The step was done, but its result cannot be stored: {raised.detail}"
            return _Ended(error=ToolError(BAD_RESULT, message, retryable=False))

    def _failure(self, raised: BaseException, context: CallContext, request: Request) -> ToolError:
        """Return the recorded form of an exception. Whether it is retried is decided now, while its class is known."""
        failure = failure_of(raised, context.call.call_id)
        return replace(failure, retryable=request.retry.retries_class(type(raised), failure.code))

    async def _failed(self, failure: ToolError, context: CallContext, work: StepFunction) -> _Ended:
        """Ask the check of a `once` step that raised: it may have had its effect, and only the reply was lost.

        Without a check, the exception is a failure, and the retry policy of the author applies.
        """
        if context.call.effect != "once" or work.check is None or not self._has_begun(context.call.call_id):
            return _Ended(error=failure)
        unknown = _Ended(error=replace(failure, retryable=False), happened="unknown")
        try:
            found = await self.check(context)
        except Invalid as error:
            log.warning(
                "%s raised, and its check cannot tell whether its effect exists: %s", context.call.step, error.detail
            )
            message = f"{failure.message}; its check cannot tell whether its effect exists: {error.detail}"
            return _Ended(error=replace(failure, message=message, retryable=False), happened="unknown")
        done = _done(found, f"The step raised {failure.code}: {failure.message}".rstrip("."), "yes")
        if done is not None:
            return done
        is_known = found == "not_happened" and not self._is_running(context.call.call_id)
        return _Ended(error=failure, happened="no") if is_known else unknown

    async def _timed_out(self, context: CallContext, request: Request, work: StepFunction) -> _Ended:
        """Ask the check of a `once` step that timed out; without an answer, it is not repeated."""
        too_long = f"The step took longer than its timeout of {work.timeout_s:g} s"
        is_retryable = request.retry.retries_class(TimeoutError, TIMEOUT)
        if context.call.effect != "once":
            return _Ended(error=ToolError(TIMEOUT, f"{too_long}.", retryable=is_retryable))
        try:
            found = await self.check(context)
        except Invalid as error:
            message = f"{too_long}; its check cannot tell: {error.detail}"
            return _Ended(error=ToolError(TIMEOUT, message, retryable=False))
        done = _done(found, too_long)
        if done is not None:
            return done
        if found == "not_happened" and not self._is_running(context.call.call_id):
            message = f"{too_long}; its check says that it had no effect."
            return _Ended(error=ToolError(NOT_HAPPENED, message, retryable=is_retryable))
        message = f"{too_long}; whether its effect exists is not known, so it is not repeated."
        return _Ended(error=ToolError(TIMEOUT, message, retryable=False))

    async def check(self, context: CallContext) -> Check:
        """See Tool.check. Calls the check of the step with the arguments, the key and the context of the step.

        Raises: Invalid when the check raises, or returns a result that cannot be stored or does not fit the return
        type.
        """
        _, work = self._requested(context)
        if work.check is None:
            return "unknown"
        own = work.context.copy()
        own.run(STEP.set, current_of(context, is_check=True))
        asked = _ask_check(self._calls.function(work.check), work, context.call.step)
        answer = await asyncio.create_task(asked, context=own)
        what = f"The result from the check of {context.call.step}"
        return answer_of(
            answer, lambda value: known_result_to_json(work.fn, value, what), needs_result=needs_result(work.fn)
        )

    async def reap(self, goal_id: str, call_id: str) -> None:
        """See Tool.reap. Ends the processes that a step forked; a thread ends only by itself, or with the process.

        Raises: Unavailable when a process does not end, or the function of the step still runs here.
        """
        await self._forks.end(goal_id, call_id)
        if self._is_running(call_id):
            raise Unavailable(f"The function of {call_id} still runs on its thread, which cannot be ended.")

    def _has_begun(self, call_id: str) -> bool:
        """Return whether a function was called. It was not if its thread could not be started."""
        thread = self._threads.get(call_id)
        return thread is None or thread.has_begun

    def _is_running(self, call_id: str) -> bool:
        thread = self._threads.get(call_id)
        return thread is not None and thread.is_alive

    def _requested(self, context: CallContext) -> tuple[Request, StepFunction]:
        request = self._requests.get(context.call.step)
        if request is None or not isinstance(request.wanted, StepFunction):
            raise Invalid(f"The flow does not ask for {context.call.step}.")
        return request, request.wanted


def current_of(context: CallContext, *, is_check: bool = False) -> CurrentStep:
    """Return the current step for the function of a step, or for its check."""
    call = context.call
    return CurrentStep(context.goal_id, call.step, call.attempt, is_check=is_check, _report=context.report)


def _done(found: Check, why: str, happened: Happened | None = None) -> _Ended | None:
    """Return the end of a step whose check says that it happened, else None; `why` is the reason of the question."""
    match found:
        case "happened":
            return _Ended(happened=happened)
        case KnownOutput(output=output):
            return _Ended(output, happened=happened)
        case "lost_result":
            return _Ended(error=ToolError(LOST_RESULT, f"{why}; {WITHOUT_RESULT}.", retryable=False))
        case _:
            return None


def _left_s(context: CallContext, request: Request, work: StepFunction) -> float | None:
    """Return the time limit of an attempt. An attempt that an earlier process began has only the remaining time."""
    if work.timeout_s is None or request.attempts_begun >= context.call.attempt:
        return work.timeout_s
    left_s = context.left_s()
    return work.timeout_s if left_s is None else min(left_s, work.timeout_s)


async def _ask_check(check: Callable[..., Any], work: StepFunction, step: str) -> Any:
    """Return the answer of a check.

    Raises: Invalid when the check raises.
    """
    try:
        return await call(check, work)
    except BaseException as raised:
        if is_interrupt(raised) or _is_being_cancelled():
            raise
        log.warning("the check of %s raised", step, exc_info=True)
        failure = failure_of(raised, f"the check of {step}")
        raise Invalid(f"it raised {failure.code}: {failure.message[:_LONGEST_REASON]}.") from raised


def _ignore(_thread: StepThread) -> None:
    """Ignore a thread."""


async def call(fn: Callable[..., Any], work: StepFunction, keep: Callable[[StepThread], None] = _ignore) -> Any:
    """Call a function with the arguments of a step: an async one here, any other on its own thread.

    `keep` is called with that thread.

    Raises: BrokenStart; the exception of the function.
    """
    args, kwargs = _own(work.args), _own(work.kwargs)
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None)):  # noqa: B004
        return await fn(*args, **kwargs)
    thread = StepThread(lambda: fn(*args, **kwargs))
    keep(thread)
    result = await thread.run()
    return await result if inspect.isawaitable(result) else result


def _own(arguments: T) -> T:
    """Return a copy of arguments, so that a step that changes them does not affect the flow or another attempt."""
    try:
        return copy.deepcopy(arguments)
    except Exception:  # noqa: BLE001 (arguments that cannot be copied are passed unchanged)
        return arguments


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
