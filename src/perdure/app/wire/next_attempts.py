"""The times at which failed steps are retried, for readers of a goal."""

from perdure.kernel.events import ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState


def next_attempt_us(state: GoalState, call: CallState) -> int | None:
    """Return the time of the next attempt after a failed call; None if there is none, or it has started."""
    if call.outcome is None or call.outcome.ok or call.ended_us is None or state.termination is not None:
        return None
    if state.begun.mind.kind == "plan":
        from perdure.minds.plan.plan_view import next_try_us  # only readers of a plan need YAML

        return next_try_us(state, call)
    wait_s, about = call.outcome.retry_after_s, call.call
    if wait_s is None or not isinstance(about, ToolCall) or f"{about.step}.{about.attempt + 1}" in state.calls:
        return None
    return call.ended_us + round(wait_s * 1e6)


def earliest_attempt_us(state: GoalState) -> int | None:
    """Return the earliest time of a next attempt; None without one."""
    if state.termination is not None:
        return None
    moments = [next_attempt_us(state, call) for call in state.calls.values()]
    return min((each for each in moments if each is not None), default=None)
