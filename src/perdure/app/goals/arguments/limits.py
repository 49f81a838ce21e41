"""Limits of goals, and the events that raise them."""

from collections.abc import Sequence

from perdure.errors import Invalid
from perdure.kernel.events import LimitRaised, Limits
from perdure.kernel.fold import GoalState
from perdure.kernel.limits import raised_limits

__all__ = ["Limits", "raised"]


def raised(state: GoalState, limits: Limits) -> Sequence[LimitRaised]:
    """Return the events for raised limits.

    Raises: Invalid when a limit is not above the used amount.
    """
    found = raised_limits(limits)
    for each in found:
        used = getattr(state.used, each.name)
        if each.value is not None and each.value <= used:
            raise Invalid(
                f"The limit of {each.name} must exceed the {used:g} that {state.goal_id} has used, got {each.value:g}."
            )
    return found
