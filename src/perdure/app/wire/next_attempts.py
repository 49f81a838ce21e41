"""When steps that failed are tried again, for those who look at a goal and do not run it."""

from perdure.kernel.events import ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState


def next_attempt_us(state: GoalState, call: CallState) -> int | None:
    """Return when the step of a call that failed is tried again; None when it is not, or was already."""
    if call.outcome is None or call.outcome.ok or call.ended_us is None or state.termination is not None:
        return None
    if state.begun.mind.kind == "plan":
        from perdure.minds.plan.plan_view import next_try_us  # only those who look at a plan need YAML

        return next_try_us(state, call)
    wait_s, about = call.outcome.retry_after_s, call.call
    if wait_s is None or not isinstance(about, ToolCall) or f"{about.step}.{about.attempt + 1}" in state.calls:
        return None
    return call.ended_us + round(wait_s * 1e6)


def earliest_attempt_us(state: GoalState) -> int | None:
    """Return when the first of all steps that failed is tried again; None when none is."""
    if state.termination is not None:
        return None
    moments = [next_attempt_us(state, call) for call in state.calls.values()]
    return min((each for each in moments if each is not None), default=None)
