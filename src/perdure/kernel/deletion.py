"""Why a goal cannot be deleted."""

from perdure.errors import Conflict


def not_finished(goal_id: str) -> Conflict:
    """Return the refusal of a goal that has not finished."""
    return Conflict(f"{goal_id} has not finished; cancel it first.")


def has_fork(goal_id: str, fork_id: str) -> Conflict:
    """Return the refusal of a goal whose events a fork needs."""
    return Conflict(f"{goal_id} has a fork, {fork_id}; delete that first.")
