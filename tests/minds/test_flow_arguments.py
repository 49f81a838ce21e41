"""The arguments of a step as its history has them, and whether code that runs again gives the same."""

from typing import Any

import pytest
from hypothesis import given

from perdure.kernel.events import Effect
from perdure.minds.flow.values.arguments import are_same_arguments, recorded_arguments
from perdure.minds.flow.values.values import digest
from tests.kernel.test_events import values

WHOLE: dict[str, Any] = {"args": [7, "x"], "kwargs": {"b": 1, "a": 2}}


def test_what_is_empty_is_left_out_and_only_a_pure_step_has_a_digest() -> None:
    assert recorded_arguments({"args": [7], "kwargs": {}}, "idempotent") == {"args": [7]}
    assert recorded_arguments({"args": [], "kwargs": {"a": 1}}, "once") == {"kwargs": {"a": 1}}
    assert recorded_arguments({"args": [], "kwargs": {}}, "once") == {}
    assert recorded_arguments(WHOLE, "pure") == {**WHOLE, "digest": digest(WHOLE)}


@pytest.mark.parametrize("effect", ["pure", "idempotent", "once"])
@pytest.mark.parametrize(
    "recorded",
    [WHOLE, {**WHOLE, "digest": digest(WHOLE)}, {"digest": digest(WHOLE)}],
    ids=["intent", "older intent", "pure"],
)
def test_the_same_arguments_are_found_in_every_form_of_a_history(effect: Effect, recorded: dict[str, Any]) -> None:
    same = {"args": [7, "x"], "kwargs": {"a": 2, "b": 1}}
    assert are_same_arguments(recorded_arguments(same, effect), recorded)
    for other in ({"args": [8, "x"], "kwargs": same["kwargs"]}, {"args": [7, "x"], "kwargs": {}}):
        assert not are_same_arguments(recorded_arguments(other, effect), recorded)


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
@pytest.mark.parametrize(("first", "second"), [(1, True), (1, 1.0), (0, False), ([], {}), (None, 0)])
def test_what_is_equal_in_python_and_not_in_json_is_not_the_same(effect: Effect, first: Any, second: Any) -> None:
    one, other = ({"args": [value], "kwargs": {}} for value in (first, second))
    assert not are_same_arguments(recorded_arguments(one, effect), recorded_arguments(other, effect))


@given(values, values)
def test_arguments_are_the_same_exactly_when_their_digests_are(first: Any, second: Any) -> None:
    one, other = ({"args": [value], "kwargs": {"a": value}} for value in (first, second))
    is_same = digest(one) == digest(other)
    assert are_same_arguments(recorded_arguments(one, "once"), recorded_arguments(other, "once")) == is_same
