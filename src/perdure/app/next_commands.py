"""Which commands a person can run next on a goal: the same on every surface."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.kernel.fold import GoalState
from perdure.kernel.summary import Summary


@dataclass(frozen=True, slots=True)
class NextCommand:
    """A command line, and what it is for."""

    command: str
    why: str


def next_commands(goal: Summary, state: GoalState | None = None) -> Sequence[NextCommand]:
    """Return the commands that fit a goal; with its state, they name the calls that wait."""
    del state
    if goal.status == "failed":
        return (NextCommand(f"perdure goal retry {goal.goal_id}", "Retry the failed step."),)
    if goal.waiting_for == "hold":
        return (NextCommand(f"perdure goal resume {goal.goal_id}", "Run it again, once the cause is removed."),)
    return ()
