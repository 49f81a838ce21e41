"""What a goal may use. Limits count across resumes, because what was used is counted from the events."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.kernel.events import LimitName, LimitRaised, Limits


@dataclass(slots=True)
class Used:
    """What a goal has used: decisions of its mind, tokens, money, and the time that its tools took, added up."""

    iterations: int = 0
    iterations_before: int = 0
    """How many of them came before the last message of a person."""
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0


def reached(limits: Limits, used: Used) -> LimitName | None:
    """Return a limit that was reached, if any: the goal begins nothing new until that one is raised."""
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
    """Return the events that raise the limits that are given."""
    names: tuple[LimitName, ...] = ("iterations", "tokens", "usd", "seconds")
    return [LimitRaised(name, value) for name in names if (value := getattr(limits, name)) is not None]
