"""Whether the beginning of a conversation can be summarised."""

from perdure.kernel.fold import GoalState
from perdure.minds.model.summaries import range_of


def can_be_summarised(state: GoalState) -> bool:
    """Return whether a conversation has turns before its last four, apart from those of the last summary."""
    return range_of(state) is not None
