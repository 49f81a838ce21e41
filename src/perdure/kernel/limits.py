"""What a goal may use. Limits count across resumes, because they are counted from the events."""

from perdure.kernel.events import LimitName
from perdure.kernel.fold import GoalState


def reached(state: GoalState) -> LimitName | None:
    """Return the limit that a goal has reached, if any: it begins nothing new until that is raised."""
    limits = state.limits
    used: dict[LimitName, tuple[float, float | None]] = {
        "iterations": (state.iteration, limits.iterations),
        "tokens": (state.tokens, limits.tokens),
        "usd": (state.cost_usd, limits.usd),
        "seconds": (state.busy_us / 1e6, limits.seconds),
    }
    return next((name for name, (spent, most) in used.items() if most is not None and spent >= most), None)
