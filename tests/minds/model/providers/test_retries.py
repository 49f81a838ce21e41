"""When an attempt is made again, and when a service is left alone."""

import pytest

from perdure.minds.model.providers.breaker import FAILURES, OPEN_S, Breakers
from perdure.minds.model.providers.failures import Failure, of_status, shown_message
from perdure.minds.model.providers.names import parse_model_name
from perdure.minds.model.providers.retries import ATTEMPTS, JITTER, WAITS_S, GiveUp, Wait, after_failure
from tests.minds.model.providers.clocks import QuickClock

AGAIN = Failure("overloaded", "busy", is_retryable=True)
NEVER = Failure("auth", "no")
MODEL = parse_model_name("openai:m")


def test_the_waits_grow_and_end_with_the_last_attempt() -> None:
    decided = [after_failure(AGAIN, attempt, 600.0, lambda: 0.5) for attempt in range(1, ATTEMPTS + 1)]
    assert decided == [Wait(1.0), Wait(4.0), Wait(15.0), GiveUp()]


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_chance_makes_a_wait_a_quarter_longer_or_shorter(chance: float) -> None:
    decided = after_failure(AGAIN, 2, 600.0, lambda: chance)
    assert decided == Wait(WAITS_S[1] * (1 + (JITTER if chance else -JITTER)))


def test_what_cannot_succeed_is_not_tried_again() -> None:
    assert after_failure(NEVER, 1, 600.0, lambda: 0.5) == GiveUp()


def test_the_wish_of_the_provider_counts_up_to_a_minute() -> None:
    def asking(seconds: float) -> Failure:
        return Failure("rate_limited", "slow down", is_retryable=True, retry_after_s=seconds)

    assert after_failure(asking(30), 1, 600.0, lambda: 0.0) == Wait(30.0)
    assert after_failure(asking(60), 1, 600.0, lambda: 0.0) == Wait(60.0)
    assert after_failure(asking(61), 1, 600.0, lambda: 0.0) == GiveUp(61)
    assert after_failure(asking(30), 1, 20.0, lambda: 0.0) == GiveUp(30)
    assert after_failure(asking(30), ATTEMPTS, 600.0, lambda: 0.0) == GiveUp(30)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_statuses_that_may_pass_are_retried(status: int) -> None:
    assert of_status(status, "", MODEL, None).is_retryable


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_other_statuses_are_not(status: int) -> None:
    failure = of_status(status, "", MODEL, None)
    assert not failure.is_retryable
    assert failure.next is not None


def test_a_breaker_opens_after_five_failures_in_a_row_and_closes_with_a_success() -> None:
    clock = QuickClock()
    breakers = Breakers(clock)
    for _ in range(FAILURES - 1):
        breakers.record("a", AGAIN)
    breakers.record("a", None)
    for _ in range(FAILURES - 1):
        breakers.record("a", AGAIN)
    assert breakers.open_for_s("a") == 0
    breakers.record("a", AGAIN)
    assert breakers.open_for_s("a") == OPEN_S
    assert breakers.last_failure("a") == AGAIN
    assert breakers.open_for_s("b") == 0
    clock.advance(OPEN_S)
    assert breakers.open_for_s("a") == 0
    breakers.record("a", AGAIN)
    assert breakers.open_for_s("a") == OPEN_S
    clock.advance(OPEN_S)
    breakers.record("a", None)
    breakers.record("a", AGAIN)
    assert breakers.open_for_s("a") == 0


def test_a_request_that_was_wrong_says_nothing_about_the_service() -> None:
    breakers = Breakers(QuickClock())
    for _ in range(2 * FAILURES):
        breakers.record("a", NEVER)
    assert breakers.open_for_s("a") == 0


def test_a_message_is_one_line_without_the_key() -> None:
    assert shown_message("Key sk-12345678\nis \x1b[31mwrong", "sk-12345678") == "Key *** is [31mwrong"
    assert len(shown_message("x" * 5000, None)) == 400
