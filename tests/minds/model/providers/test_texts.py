"""Texts that arrive in pieces, and arguments of tool calls."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.minds.model.providers.requests.texts import Pieces, read_arguments
from perdure.text.storable import without_surrogates

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=[]))


def in_pieces(text: list[str]) -> str:
    pieces = Pieces()
    passed = [pieces.take(piece) for piece in text] + [pieces.finish()]
    assert "".join(passed) == pieces.text
    assert pieces.code_points == len(pieces.text)
    return pieces.text


@given(st.lists(ANY_TEXT))
def test_what_is_kept_can_be_stored_and_is_the_same_however_it_was_cut(pieces: list[str]) -> None:
    kept = in_pieces(pieces)
    kept.encode()
    assert kept == in_pieces(["".join(pieces)]) == without_surrogates("".join(pieces))


@given(st.lists(st.text()))
def test_text_without_surrogates_is_kept_unchanged(pieces: list[str]) -> None:
    assert in_pieces(pieces) == "".join(pieces)


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["\ud83d", "\ude00"], "😀"),
        (["a\ud83d", "b"], "a\ufffdb"),
        (["\ude00"], "\ufffd"),
        (["\ud83d", ""], "\ufffd"),
        (["\ud83d\ud83d", "\ude00"], "\ufffd😀"),
    ],
)
def test_half_characters_are_joined_or_replaced(pieces: list[str], text: str) -> None:
    assert in_pieces(pieces) == text


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        (" \n", {}),
        ('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
        (r'{"a": "\ud83d", "\udc00": "\ud83d\ude00"}', {"a": "\ufffd", "\ufffd": "😀"}),
        (r'{"a": "\u0000"}', {"a": "\0"}),
    ],
)
def test_an_object_is_the_arguments(text: str, arguments: dict[str, Any]) -> None:
    assert read_arguments(text) == arguments


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        "3",
        '"a"',
        "null",
        "{",
        '{"a": 1}}',
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": 99999999999999999999999}',
        "[" * 10_000,
        '{"a":' * 10_000 + "1" + "}" * 10_000,
        '{"a":' * 65 + "1" + "}" * 65,
    ],
)
def test_anything_else_is_kept_as_a_text(text: str) -> None:
    assert read_arguments(text) is None


def test_arguments_may_be_64_levels_deep() -> None:
    assert read_arguments('{"a":' * 64 + "1" + "}" * 64) is not None


@given(
    st.dictionaries(
        st.text(), st.recursive(st.none() | st.booleans() | st.integers(-100, 100) | st.text(), st.lists, max_leaves=10)
    )
)
def test_what_is_written_as_json_is_read_back(arguments: dict[str, Any]) -> None:
    assert read_arguments(json.dumps(arguments)) == arguments
