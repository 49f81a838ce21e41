"""When a failed attempt is made again: waits, the wish of the provider, and the deadline of the whole request."""

from collections.abc import Callable
from dataclasses import dataclass

from perdure.minds.model.providers.failures import Failure

ATTEMPTS = 4
WAITS_S = (1.0, 4.0, 15.0)
JITTER = 0.25
"""A wait is up to this part longer or shorter, so that clients that failed together do not come back together."""
LONGEST_RETRY_AFTER_S = 60.0
FIRST_EVENT_S = 60.0
REQUEST_S = 600.0
"""All attempts for one model and the waits between them."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The pause before the next attempt."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No further attempt."""

    retry_after_s: float | None = None
    """When a later request may succeed, if the provider said so."""


def after_failure(
    failure: Failure, attempt: int, left_s: float, chance: Callable[[], float], most: int = ATTEMPTS
) -> Wait | GiveUp:
    """Decide what follows the failure of an attempt, the first of which is 1, and `most` the last.

    `left_s` is what is left of the deadline, `chance` returns a number from 0 to 1. A provider that asks for more than
    a minute is not waited for: a goal can be parked until then, and holds no process.
    """
    asked_s = failure.retry_after_s
    if not failure.is_retryable:
        return GiveUp()
    if asked_s is not None and asked_s > LONGEST_RETRY_AFTER_S:
        return GiveUp(asked_s)
    if attempt >= most:
        return GiveUp(asked_s)
    usual_s = WAITS_S[attempt - 1] * (1 - JITTER + 2 * JITTER * chance())
    seconds = usual_s if asked_s is None else asked_s + JITTER * chance()
    return GiveUp(asked_s) if seconds >= left_s else Wait(seconds)
