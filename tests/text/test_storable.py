"""A text can be stored when every database accepts it as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Invalid
from perdure.text.storable import escaped, flaw_in, is_storable, place_of_flaw, require_storable

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_unicode_text_without_nul_is_returned_unchanged(text: str) -> None:
    assert require_storable(text, "The title") == text
    assert place_of_flaw(text) == -1


@given(ANY_TEXT, st.sampled_from(["\0", "\ud800", "\udbff", "\udc00", "\udfff"]), ANY_TEXT)
def test_one_wrong_character_anywhere_is_found(before: str, wrong: str, after: str) -> None:
    text = before + wrong + after
    assert not is_storable(text)
    assert 0 <= place_of_flaw(text) <= len(before)
    with pytest.raises(Invalid, match="^The title contains a "):
        require_storable(text, "The title")


@given(ANY_TEXT)
def test_an_escaped_text_can_be_stored(text: str) -> None:
    assert is_storable(escaped(text))


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_what_can_be_stored_is_not_escaped(text: str) -> None:
    assert escaped(text) == text


def test_nul_is_accepted_where_it_is_escaped_anyway() -> None:
    assert flaw_in("a\0", allows_nul=True) is None
    assert flaw_in("a\0\ud800", allows_nul=True) == "a lone surrogate, which is not valid Unicode text"
