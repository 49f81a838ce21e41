"""The errors of goals that cannot be deleted."""

from perdure.errors import Conflict


def not_finished(goal_id: str) -> Conflict:
    """Return the error for a goal that has not finished."""
    return Conflict(f"{goal_id} has not finished; cancel it first.")


def damaged_and_not_finished(goal_id: str) -> Conflict:
    """Return the error for an unfinished goal that cannot be cancelled either."""
    return Conflict(
        f"{goal_id} has not finished, and its history is damaged, so it cannot be cancelled. To delete it anyway:"
        f" `perdure goal delete {goal_id} --force`."
    )


def has_fork(goal_id: str, fork_id: str) -> Conflict:
    """Return the error for a goal whose events a fork needs."""
    return Conflict(f"{goal_id} has a fork, {fork_id}; delete that first.")


def has_unfinished_child(goal_id: str, child_id: str) -> Conflict:
    """Return the error for a goal with an unfinished child."""
    return Conflict(f"{goal_id} has a child, {child_id}, that has not finished; cancel that first.")


def is_child_of_unfinished(goal_id: str, parent_id: str) -> Conflict:
    """Return the error for a child whose parent has not finished."""
    return Conflict(f"{goal_id} is a child of {parent_id}, which has not finished; cancel that first.")
