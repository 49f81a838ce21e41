"""Strict JSON, to the letter: what is just allowed and what is just not, each with the place of the mistake."""

import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Invalid
from perdure.text.strict_json import (
    PAYLOAD,
    STORABLE,
    SYNTAX,
    JsonLimits,
    NotJson,
    dump_json,
    parse_json,
    require_finite,
    require_json,
)

DEEPEST = STORABLE.deepest
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS | st.floats(allow_nan=False, width=64)
VALUES = st.recursive(
    SCALARS.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def parse(text: str | bytes) -> Any:
    return parse_json(text, "The body")


@given(VALUES)
def test_what_is_written_is_read(value: Any) -> None:
    assert parse(dump_json(value, "The value")) == value


@given(VALUES)
def test_what_the_standard_library_writes_is_read(value: Any) -> None:
    assert parse(json.dumps(value)) == value


@given(VALUES, st.sampled_from(["\0", "\ud800", 2**63, -(2**63) - 1, float("inf")]), st.data())
def test_one_wrong_value_anywhere_is_found(value: Any, wrong: Any, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(0, 5))):
        value = data.draw(st.sampled_from([[value], {"a": value}, [1, value, 2], {"b": 1, "a": value}]))
        wrong = [wrong, value] if data.draw(st.booleans()) else {"x": value, "wrong": wrong}
    with pytest.raises(Invalid, match="^The body "):
        require_json(wrong, "The body")


@pytest.mark.parametrize("innermost", ["", "1", '"x"'])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":[', "]}")])
def test_containers_are_nested_64_deep_and_no_deeper(begin: str, end: str, innermost: str) -> None:
    levels = DEEPEST // len(end)
    deep = begin * levels + innermost + end * levels
    assert parse(deep) == json.loads(deep)
    with pytest.raises(Invalid, match="64 levels"):
        parse(f"[{deep}]")


def test_a_text_that_is_nested_beyond_all_bounds_is_too_deep() -> None:
    with pytest.raises(Invalid, match="64 levels"):
        parse("[" * 1_000_000)


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0, -1])
def test_integers_of_64_bits_are_read(number: int) -> None:
    assert parse(str(number)) == number


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "9" * 5_000, f"-{'0' * 30}1"])
def test_larger_ones_are_not(number: str) -> None:
    with pytest.raises(Invalid):
        parse(f'{{"a": [{number}]}}')


@pytest.mark.parametrize("deep", [0, 63, 64])
def test_what_is_innermost_is_validated_like_everything_else(deep: int) -> None:
    with pytest.raises(Invalid, match="NUL"):
        parse("[" * deep + '"\\u0000"' + "]" * deep)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": 2, "a": 3}', "The body has the key 'a' twice in one object."),
        ('[{"a": {"b": 1, "b": 1}}]', "The body has the key 'b' twice in one object."),
        ('{"a": NaN}', "The body has NaN, which JSON does not have."),
        ("[-Infinity]", "The body has -Infinity, which JSON does not have."),
        ('{"a": [1, {"b": "\\u0000"}]}', "The body at a[1].b contains a NUL character."),
        ('"\\ud800"', "The body contains a lone surrogate, which is not valid Unicode text."),
        (
            '{"a": {"\\udfff": 1}}',
            "The body at a has a key that contains a lone surrogate, which is not valid Unicode text.",
        ),
        ("[1, 9223372036854775808]", "The body at [1] is an integer of more than 64 bits."),
        ("[1e999]", "The body at [0] is a number that is too large."),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(Invalid) as found:
        parse(text)
    assert found.value.detail == message


@pytest.mark.parametrize("text", [b"", b"{", b"{]", b"\xff", b'{"a": 1,}', b"'a'", b"[1] [2]", b"\xef\xbb\xbf1"])
def test_what_is_not_json_is_distinguished_from_values_that_cannot_be_stored(text: bytes) -> None:
    with pytest.raises(NotJson, match="^The body is not JSON: "):
        parse(text)


def test_a_payload_may_hold_what_a_column_cannot() -> None:
    assert parse_json('["\\u0000", 18446744073709551615]', "The payload", PAYLOAD) == ["\0", 2**64 - 1]
    with pytest.raises(Invalid, match="surrogate"):
        parse_json('"\\ud800"', "The payload", PAYLOAD)


def test_limits_are_the_callers() -> None:
    with pytest.raises(Invalid, match="deeper than 1 levels"):
        parse_json("[[]]", "The value", JsonLimits(deepest=1))


def within_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        *(float("nan"), [float("inf")], {"a": (float("nan"),)}, MappingProxyType({"a": float("nan")})),
        *("\ud800", {1: 2}, object(), b"", 2**64, within_itself()),
    ],
    ids=["nan", "infinity", "tuple", "mapping", "surrogate", "number key", "object", "bytes", "too large", "itself"],
)
def test_what_json_does_not_have_is_not_written(value: Any) -> None:
    with pytest.raises(Invalid, match="^The answer cannot be written as JSON: "):
        dump_json(value, "The answer")


def test_any_mapping_is_an_object() -> None:
    assert dump_json(MappingProxyType({"a": (1, 2)}), "The value") == b'{"a":[1,2]}'


@given(VALUES)
def test_finite_values_are_finite(value: Any) -> None:
    require_finite(value)


def test_a_reader_may_validate_values_itself() -> None:
    assert parse_json('["\\ud800"]', "The file", SYNTAX) == ["\ud800"]
    with pytest.raises(Invalid, match="'a' twice"):
        parse_json('{"a": 1, "a": 1}', "The file", SYNTAX)
