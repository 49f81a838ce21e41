"""What a goal may use. Limits count across resumes, because what was used is counted from the events."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.kernel.events import LimitName, LimitRaised, Limits


@dataclass(slots=True)
class Used:
    """What a goal has used: decisions of its mind, tokens, money, and the time that its tools took, added up."""

    iterations: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0


def reached(limits: Limits, used: Used) -> LimitName | None:
    """Return a limit that was reached, if any: the goal begins nothing new until that one is raised."""
    pairs: dict[LimitName, tuple[float, float | None]] = {
        "iterations": (used.iterations, limits.iterations),
        "tokens": (used.tokens, limits.tokens),
        "usd": (used.usd, limits.usd),
        "seconds": (used.seconds, limits.seconds),
    }
    return next((name for name, (spent, most) in pairs.items() if most is not None and spent >= most), None)


def raised_limits(limits: Limits) -> Sequence[LimitRaised]:
    """Return the events that raise the limits that are given."""
    names: tuple[LimitName, ...] = ("iterations", "tokens", "usd", "seconds")
    return [LimitRaised(name, value) for name in names if (value := getattr(limits, name)) is not None]
