"""How the calls and the function of a flow end: the values and exceptions a flow is given, and the end of its goal."""

from collections.abc import Collection
from typing import Any

from perdure.errors import StepFailed
from perdure.kernel.events import Termination
from perdure.minds.flows.failed_steps import failed_steps, tag_with_steps
from perdure.minds.flows.mistakes import failure_of
from perdure.minds.flows.tracebacks import members_of, recorded_error, text_of
from perdure.minds.standing import Standing


def ending_of(error: BaseException, where: str, known: Collection[str]) -> Termination:
    """Return how a function ended that raised; of the steps that failed it names those that are known."""
    steps = tuple(step for step in failed_steps(error) if step in known)
    while members := members_of(error):
        error = members[0]  # what came first is why the others came
    failure = failure_of(error, where)
    if not issubclass(type(error), StepFailed):
        return Termination("fatal_error", f"{failure.code}: {failure.message}", error=failure, steps=steps)
    recorded = recorded_error(error) or failure
    return Termination("failed", f"{failure.code}: {text_of(error)}", error=recorded, steps=steps)


def ended_without(end: Termination | None) -> str | None:
    """Say how code has ended that did not ask for all that was recorded."""
    if end is None:
        return None
    return "the code ended without it" + ("" if end.detail is None else f" ({end.detail})")


def value_of(found: Standing) -> Any:
    """Return what a flow is given of a call that is done."""
    signal = found.last.signal if found.last else None
    return found.output if signal is None else signal.payload


def failure_from(step: str, found: Standing) -> BaseException:
    """Return the exception that a flow is given of a step that failed."""
    failed = StepFailed(found.error.code, found.why, step=step)
    failed.error = found.error
    tag_with_steps(failed, [step])
    return failed
