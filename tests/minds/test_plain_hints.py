"""Plain annotations are checked without pydantic, and accept nothing that pydantic would reject."""

import math
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from perdure.minds.flow.values.hints import fits_plain_hint

HINTS = st.recursive(
    st.sampled_from([None, bool, int, float, str]),
    lambda parts: st.one_of(
        parts.map(lambda part: types.GenericAlias(list, (part,))),
        parts.map(lambda part: types.GenericAlias(dict, (str, part))),
        st.tuples(parts, parts).map(lambda hints: hints[0] | hints[1] if any(hints) else None),
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    lambda parts: st.one_of(st.lists(parts, max_size=3), st.dictionaries(st.text(max_size=2), parts, max_size=3)),
    max_leaves=5,
)


@given(HINTS, VALUES)
def test_what_fits_a_plain_annotation_is_accepted_by_pydantic_too(hint: Any, value: Any) -> None:
    if fits_plain_hint(value, hint):
        assert TypeAdapter(hint).validate_python(value, strict=True) == value


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (None, None),
        (True, bool),
        (7, int),
        (0.5, float),
        ("a", str),
        ([1, 2], list[int]),
        ({"a": None}, dict[str, int | None]),
    ],
)
def test_a_value_of_the_very_type_fits(value: Any, hint: Any) -> None:
    assert fits_plain_hint(value, hint)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("7", int),
        (True, int),
        (1, bool),
        (2**63, int),
        (math.nan, float),
        ("\ud800", str),
        ([1, "2"], list[int]),
        ({1: 2}, dict[str, int]),
    ],
)
def test_a_value_that_may_not_fit_is_left_to_pydantic(value: Any, hint: Any) -> None:
    assert not fits_plain_hint(value, hint)
