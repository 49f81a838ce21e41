"""Strict YAML: what a small text could do to grow is rejected, with the line."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from perdure import Invalid
from perdure.text.strict_yaml import YamlLimits, compose, construct

LIMITS = YamlLimits(deepest=4, most_values=10, resolves_scalars=True)
WIDE = YamlLimits(deepest=100, most_values=100_000, resolves_scalars=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\ufffe\uffff"))
SCALARS = st.none() | st.booleans() | st.integers() | TEXTS | st.floats(allow_nan=False)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=20
)


def value_of(text: str, limits: YamlLimits = LIMITS) -> Any:
    node = compose(text, "a.yaml", limits)
    assert node is not None
    return construct(node, "a.yaml")


@given(VALUES)
def test_what_the_library_writes_is_read(value: Any) -> None:
    assert value_of(yaml.safe_dump(value, allow_unicode=True), WIDE) == value


def test_an_empty_text_has_no_node() -> None:
    assert compose("# nothing\n", "a.yaml", LIMITS) is None


@pytest.mark.parametrize("word", ["yes", "no", "on", "off", "true", "1", "1.5", "null", "2026-11-15"])
def test_without_resolved_scalars_every_word_is_text(word: str) -> None:
    node = compose(word, "a.yaml", YamlLimits(deepest=1, most_values=1))
    assert node is not None
    assert (node.tag, node.value) == ("tag:yaml.org,2002:str", word)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: &x 2", "a.yaml:2: Anchors (&) and aliases (*) are not allowed"),
        ("a: *x", "a.yaml:1: Anchors (&) and aliases (*) are not allowed"),
        ("\n\na: !!python/object/apply:os.system ['true']", "a.yaml:3: Tags (tag:yaml.org,2002:python/object"),
        ("a: !x 1", "a.yaml:1: Tags (!x) are not allowed"),
        ("a: 1\nb: 2\na: 3", "a.yaml:3: The key 'a' is a duplicate."),
        ("a:\n  b: 1\n  b: 2", "a.yaml:3: The key 'b' is a duplicate."),
        ("[1]: 2", "a.yaml:1: A key must be text."),
        ("[[[[[1]]]]]", "a.yaml:1: This is nested more than 4 levels deep."),
        (f"[{'1,' * 11}]", "a.yaml:1: The file has more than 10 values."),
        ("a: 1\nb: \0", "a.yaml:2: The file contains a NUL character."),
        ("a: \ud800", "a.yaml:1: The file is not UTF-8."),
        ('a: "\\0"', "a.yaml:1: A text contains a NUL character."),
        ('a: "\\ud800"', "a.yaml:1: A text contains a lone surrogate"),
        ("a: \x01", "a.yaml:1: The character U+0001 is not allowed in YAML."),
        ("a:\n\tb: 1", "a.yaml:2: A tab cannot indent in YAML; use spaces."),
        ("a: [1", "a.yaml:1: This is not valid YAML: "),
        ("a: 1\n--- \nb: 2", "a.yaml:2: This is not valid YAML: "),
        ('a: "\\U7fffffff"', "a.yaml:1: This is not valid YAML: a number in it is too big."),
        ("a: 2026-13-45", "a.yaml:1: This is not valid YAML: "),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(Invalid) as found:
        value_of(text)
    assert found.value.detail.startswith(message)
    assert found.value.errors == (found.value.detail,)


def test_lines_count_from_where_the_text_stands_in_its_file() -> None:
    with pytest.raises(Invalid, match="a.md:3: The key 'a' is a duplicate"):
        compose("a: 1\na: 2", "a.md", LIMITS, first_line=2)


def test_a_reader_may_reject_equal_keys_in_its_own_words() -> None:
    node = compose("a: 1\na: 2", "a.yaml", YamlLimits(deepest=2, most_values=9, allows_equal_keys=True))
    assert node is not None
    assert len(node.value) == 2


def test_a_text_of_many_open_brackets_needs_no_deep_stack() -> None:
    with pytest.raises(Invalid, match="levels deep"):
        compose("[" * 100_000, "a.yaml", LIMITS)
