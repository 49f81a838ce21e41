"""Slugs: safe and distinct, whatever a bot is called."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Invalid
from perdure.bots.slugs import require_slug, slug_of, slugs_for


@given(st.text())
def test_any_name_gets_a_slug_that_is_one(name: str) -> None:
    for slug in islice(slugs_for(name), 3):
        assert require_slug(slug) == slug


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Ada", "ada"),
        ("Crème Brûlée 2", "creme-brulee-2"),
        ("Straße", "strasse"),
        ("a: 'b' \"c\"\n---\n../d\0", "a-b-c-d"),
        ("con", "bot-con"),
        ("Assistant", "bot-assistant"),
        ("LPT1", "bot-lpt1"),
        ("Ada 🤖", "ada"),
        ("x" * 300, "x" * 48),
    ],
)
def test_a_slug_is_what_one_would_expect(name: str, slug: str) -> None:
    assert slug_of(name) == slug


def test_names_that_look_alike_get_different_slugs() -> None:
    names = ["ada", "\u0430da", "\u0430d\u0430", "Анна", "Ольга", "日本", "中国", "🤖", "🎉", "---", ""]
    assert len({slug_of(name) for name in names}) == len(names)


@pytest.mark.parametrize("slug", ["", "-a", "a-", "a--b", "A", "a.b", "a/b", "..", "a\n", "ä", "nul", "com9", "x" * 65])
def test_what_is_no_slug_is_refused(slug: str) -> None:
    with pytest.raises(Invalid, match="not a valid slug"):
        require_slug(slug)
