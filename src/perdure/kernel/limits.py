"""The limits of a goal. They apply across resumes, because usage is counted from the events."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.kernel.events import LimitName, LimitRaised, Limits


@dataclass(slots=True)
class Used:
    """The usage of a goal: decisions of its mind, tokens, money, and the total time of its calls."""

    iterations: int = 0
    iterations_before: int = 0
    """The number of iterations before the last message of a person."""
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0


def reached(limits: Limits, used: Used) -> LimitName | None:
    """Return a limit that was reached, if any: the goal starts no new call until that limit is raised."""
    if limits.iterations is not None and used.iterations - used.iterations_before >= limits.iterations:
        return "iterations"
    if limits.tokens is not None and used.tokens >= limits.tokens:
        return "tokens"
    if limits.usd is not None and used.usd >= limits.usd:
        return "usd"
    if limits.seconds is not None and used.seconds >= limits.seconds:
        return "seconds"
    return None


def raised_limits(limits: Limits) -> Sequence[LimitRaised]:
    """Return the events that raise all limits that are not None."""
    names: tuple[LimitName, ...] = ("iterations", "tokens", "usd", "seconds")
    return [LimitRaised(name, value) for name in names if (value := getattr(limits, name)) is not None]
