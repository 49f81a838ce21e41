"""The hold of a goal that kills its workers: when it begins, and how a person releases it."""

from collections.abc import Sequence

from perdure.kernel.events import Hold, Released
from perdure.kernel.fold import GoalState

MOST_DEATHS = 3
"""After this many deaths in a row, a goal is not run automatically any more."""


def is_held(state: GoalState) -> bool:
    """Return whether only a person can resume the goal."""
    return state.termination is None and state.hold is not None


def hold_after(state: GoalState, deaths: int) -> Sequence[Hold]:
    """Return the hold that an automatic claim records after too many deaths; none if the goal is already on hold.

    Its steps are the tool calls that ran when the last worker died. Open questions and timers cannot kill a process.
    """
    if deaths < MOST_DEATHS or state.termination is not None or state.hold is not None:
        return ()
    running = (call.call.step for call in state.open_calls.values() if call.runs)
    return (Hold("crash_loop", deaths, tuple(dict.fromkeys(running))),)


def release(state: GoalState, by: str = "person") -> Sequence[Released]:
    """Return the event that releases a goal on request; nothing unless the goal is on hold."""
    return (Released(by),) if is_held(state) else ()


def describe_hold(hold: Hold) -> str:
    """Describe why a goal is on hold."""
    where = f"; last in step {', '.join(hold.steps)}" if hold.steps else "; no step was running at the last death"
    return f"On hold: its worker died {hold.deaths} times in a row while it ran{where}."
