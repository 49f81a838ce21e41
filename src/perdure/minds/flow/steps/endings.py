"""The ends of calls as values and exceptions for the flow, and the end of its function as the end of the goal."""

from collections.abc import Callable, Collection
from typing import Any

from perdure.errors import GoalFailed, StepFailed
from perdure.kernel.events import Termination, ToolError
from perdure.minds.flow.children import child_ending, child_failure
from perdure.minds.flow.requests import Request, StepFunction
from perdure.minds.flow.steps.exceptions import rebuilt
from perdure.minds.flow.steps.failed_steps import failed_steps, tag_with_steps
from perdure.minds.flow.steps.tracebacks import mark_recorded, members_of, recorded_error, text_of
from perdure.minds.flow.steps.user_errors import failure_of
from perdure.minds.flow.values.values import needs_result, require_result
from perdure.minds.step_status import BAD_VALUE, NOT_HAPPENED, TIMEOUT, StepStatus


def ending_of(error: BaseException, where: str, known: Collection[str]) -> Termination:
    """Return the end of a function that raised, with the failed steps that are known."""
    steps = tuple(step for step in failed_steps(error) if step in known)
    while members := members_of(error):
        error = members[0]  # the first exception is the cause of the others
    failure, recorded = failure_of(error, where), recorded_error(error)
    if recorded is not None:
        return Termination("failed", f"{recorded.code}: {recorded.message}", error=recorded, steps=steps)
    if issubclass(type(error), GoalFailed):
        return Termination("failed", child_ending(error), error=failure, steps=steps)
    if issubclass(type(error), StepFailed):
        return Termination("failed", f"{failure.code}: {text_of(error)}", error=failure, steps=steps)
    return Termination("fatal_error", f"{failure.code}: {failure.message}", error=failure, steps=steps)


def ended_without(end: Termination | None) -> str | None:
    """Describe the end of code that did not request all recorded steps."""
    if end is None:
        return None
    return "the code ended before it" + ("" if end.detail is None else f" ({end.detail})")


def value_for(request: Request, found: StepStatus) -> Any:
    """Return the value of a successful call for the flow.

    Raises: StepFailed when a person entered a value that does not fit the return type of the step.
    """
    signal = found.last.signal if found.last else None
    value = found.output if signal is None else signal.payload
    try:
        if found.is_skipped and isinstance(request.wanted, StepFunction):
            _require_result(request.wanted.fn, value)
    except ValueError as error:
        what = f"The value that was given for {request.step} does not fit the return type of its function: {error}"
        failed = StepFailed(BAD_VALUE, what, step=request.step)
        tag_with_steps(failed, [request.step])
        raise failed from error
    return value


def _require_result(fn: Callable[..., Any], value: Any) -> None:
    """Check that a value fits the return type of a function.

    Raises: ValueError
    """
    if value is None and needs_result(fn):
        raise ValueError("it has no value, and the function cannot return None")
    require_result(fn, value)


_NOT_STORED = (
    "are not plain JSON of at most 4 KiB, so `except` cannot catch it by its class. Pass text, numbers, lists and dicts"
    " to `super().__init__`."
)


def failure_from(step: str, found: StepStatus) -> BaseException:
    """Return the exception of a failed step for the flow, the same in the first run and in every replay.

    It has the class that the step raised, if that class is loaded; else it is a StepFailed. A timeout is a
    TimeoutError.
    """
    child = child_failure(step, found)
    if child is not None:
        return child
    error = found.error
    failed = StepFailed(error.code, found.why, step=step)
    failed.error = error
    tag_with_steps(failed, [step])
    raised = _timeout(error, failed) if _is_timeout(error) else rebuilt(error, failed)
    if raised is None:
        if error.type is not None and error.args is None:
            name = error.type.rpartition(":")[2]
            failed.add_note(f"It is raised as StepFailed, because the arguments of {name} {_NOT_STORED}")
        return failed
    tag_with_steps(raised, [step])
    return raised


def _is_timeout(error: ToolError) -> bool:
    """Return whether a step took too long; an exception of the step has a class."""
    return error.type is None and error.code in (TIMEOUT, NOT_HAPPENED)


def _timeout(error: ToolError, cause: StepFailed) -> TimeoutError:
    raised = TimeoutError(error.message)
    mark_recorded(raised, error)
    raised.__cause__ = cause
    return raised
