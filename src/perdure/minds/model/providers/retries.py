"""Decides whether and when a failed attempt is retried: by backoff, `Retry-After` and the deadline of the request."""

from collections.abc import Callable
from dataclasses import dataclass

from perdure.minds.model.providers.failures import Failure

ATTEMPTS = 4
WAITS_S = (1.0, 4.0, 15.0)
JITTER = 0.25
"""The relative jitter of a wait, so that clients that failed at the same time do not retry at the same time."""
LONGEST_RETRY_AFTER_S = 60.0
FIRST_EVENT_S = 60.0
REQUEST_S = 600.0
"""The deadline of all attempts for one model, including the waits between them."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The pause before the next attempt."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No further attempt."""

    retry_after_s: float | None = None
    """The time after which a later request may succeed, if the provider sent it."""


def after_failure(
    failure: Failure, attempt: int, left_s: float, chance: Callable[[], float], attempts: int = ATTEMPTS
) -> Wait | GiveUp:
    """Decide what follows the failure of an attempt; attempts are numbered from 1 to `attempts`.

    `left_s` is the time until the deadline, `chance` returns a number from 0 to 1. If the provider asks for a pause of
    more than a minute, there is no further attempt: the goal is parked until then, and holds no process.
    """
    retry_after_s = failure.retry_after_s
    if not failure.is_retryable:
        return GiveUp()
    if retry_after_s is not None and retry_after_s > LONGEST_RETRY_AFTER_S:
        return GiveUp(retry_after_s)
    if attempt >= attempts:
        return GiveUp(retry_after_s)
    backoff_s = WAITS_S[attempt - 1] * (1 - JITTER + 2 * JITTER * chance())
    seconds = backoff_s if retry_after_s is None else retry_after_s + JITTER * chance()
    return GiveUp(retry_after_s) if seconds >= left_s else Wait(seconds)
