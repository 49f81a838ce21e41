"""Merging: what a person wrote is never lost, and what nobody else changed is ours."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Invalid
from perdure.bots.documents import read_document, write_document
from perdure.bots.merge import diff, merge_file
from tests.bots.texts import SOUL

LINES = st.lists(st.sampled_from(["", "a", "b", "c", "## Purpose", "- x", "---"]), max_size=12)
VALUES = st.one_of(
    st.text("ab: #'\"-\n", max_size=6), st.lists(st.text("ab", max_size=2), max_size=2), st.integers(0, 3)
)
FRONTS = st.dictionaries(st.sampled_from(["name", "tone", "traits", "mine"]), VALUES, min_size=1)
DOCUMENTS = st.builds(lambda front, lines: write_document(front, "\n".join(lines)), FRONTS, LINES)


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS)
def test_a_merged_text_has_every_line_that_a_person_wrote(base: str, ours: str, theirs: str) -> None:
    merged = merge_file("SOUL.md", base=base, ours=ours, theirs=theirs)
    before, person, after = (read_document(text, "x") for text in (base, theirs, merged.text))
    written = [line for line in person.body.split("\n") if line not in before.body.split("\n")]
    assert all(after.body.split("\n").count(line) >= written.count(line) for line in written)
    changed = {key: value for key, value in person.front.items() if before.front.get(key) != value}
    assert changed.items() <= after.front.items()


@given(DOCUMENTS, DOCUMENTS)
def test_what_only_one_side_changed_is_taken_unchanged(base: str, changed: str) -> None:
    for ours, theirs in ((changed, base), (base, changed), (changed, changed)):
        merged = merge_file("SOUL.md", base=base, ours=ours, theirs=theirs)
        assert (merged.text, merged.is_clash) == (changed, False)


@given(LINES, LINES, LINES)
def test_plain_text_is_merged_line_by_line(base: list[str], ours: list[str], theirs: list[str]) -> None:
    merged = merge_file("USER.md", base="\n".join(base), ours="\n".join(ours), theirs="\n".join(theirs))
    base, theirs = ("\n".join(lines).split("\n") for lines in (base, theirs))  # no line at all is an empty one
    written = [line for line in theirs if line not in base]
    assert all(merged.text.split("\n").count(line) >= written.count(line) for line in written)


RULES = SOUL + "\n## Boundaries\n\n- One.\n"


@pytest.mark.parametrize(
    ("mine", "text"),
    [
        ("- Mine.\n", "- Forge.\n- Mine.\n"),
        ("- Mine.", "- Forge.\n- Mine."),
        ("- Mine.\n- Forge.\n", "- Mine.\n- Forge.\n"),
        ("\nA paragraph of mine.\n", "- Forge.\n\nA paragraph of mine.\n"),
    ],
)
def test_items_that_both_add_to_a_list_are_both_taken(mine: str, text: str) -> None:
    merged = merge_file("SOUL.md", base=RULES, ours=f"{RULES}- Forge.\n", theirs=RULES + mine)
    assert (merged.text, merged.is_clash) == (RULES + text, False)


@pytest.mark.parametrize("mine", ["  which ends here.\n", "which ends here.\n"])
def test_an_item_that_the_person_continues_is_a_clash(mine: str) -> None:
    merged = merge_file("SOUL.md", base=RULES, ours=f"{RULES}- Forge.\n", theirs=RULES + mine)
    assert (merged.text, merged.is_clash) == (RULES + mine, True)


def test_comments_order_and_own_keys_of_front_matter_stay() -> None:
    theirs = SOUL.replace("name: Ada\n", "# mine\nmood: 'sunny' # today\nname: Ada\n")
    merged = merge_file("SOUL.md", base=SOUL, ours=SOUL.replace("technical", "formal"), theirs=theirs)
    assert merged.text == theirs.replace("technical", "formal")
    assert not merged.is_clash


def test_a_comment_on_a_changed_line_is_a_clash() -> None:
    theirs = SOUL.replace("tone: technical", "tone: technical # I like it")
    merged = merge_file("SOUL.md", base=SOUL, ours=SOUL.replace("technical", "formal"), theirs=theirs)
    assert (merged.text, merged.is_clash) == (theirs, True)


def test_a_key_that_both_changed_is_a_clash_and_the_persons() -> None:
    ours = SOUL.replace("technical", "formal").replace("name: Ada", "name: Eve")
    merged = merge_file("SOUL.md", base=SOUL, ours=ours, theirs=SOUL.replace("technical", "warm"))
    assert merged.is_clash
    assert merged.text == SOUL.replace("technical", "warm").replace("name: Ada", "name: Eve")


def test_front_matter_on_one_line_is_left_to_the_person() -> None:
    theirs = "---\n{name: Ada, traits: [precise], tone: technical}\n---\n"
    merged = merge_file("SOUL.md", base=SOUL, ours=SOUL.replace("technical", "formal"), theirs=theirs)
    assert (merged.text, merged.is_clash) == (theirs, True)


def test_front_matter_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(Invalid, match="SOUL.md:4"):
        merge_file("SOUL.md", base=SOUL, ours=SOUL + "x", theirs=SOUL.replace("name: Ada", "name: ["))


LIST = "# top\n\n[a]\nx = 1\n\n[b]\nx = 2\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "text", "is_clash"),
    [
        ("# top\n\n[a]\nx = 1\n", LIST + "\n# own\n[c]\n", "# top\n\n[a]\nx = 1\n\n\n# own\n[c]\n", False),
        (LIST + "\n[d]\nx = 4\n", LIST + "\n# own\n[c]\n", LIST + "\n# own\n[c]\n\n[d]\nx = 4\n", False),
        (LIST.replace("x = 2", "x = 3"), LIST + "[c]\n", LIST.replace("x = 2", "x = 3") + "[c]\n", False),
        (LIST.replace("x = 2", "x = 3"), LIST.replace("x = 2", "x = 4"), LIST.replace("x = 2", "x = 4"), True),
        (
            LIST.replace("x = 2", "x = 3"),
            LIST.replace("x = 2", "x = 2 # two"),
            LIST.replace("x = 2", "x = 2 # two"),
            True,
        ),
        (LIST + "[d]\n", "a = {x = 1}\nb = {x = 2}\nc = {}", "a = {x = 1}\nb = {x = 2}\nc = {}\n\n[d]\n", False),
        ("[a]\nx = 1\n", "a = {x = 1}\nb = {x = 2}\n", "a = {x = 1}\nb = {x = 2}\n", True),
    ],
    ids=["removed", "added", "changed", "clash", "comment", "inline added", "inline removed"],
)
def test_skills_are_merged_table_by_table(ours: str, theirs: str, text: str, is_clash: bool) -> None:
    merged = merge_file("skills.toml", base=LIST, ours=ours, theirs=theirs)
    assert (merged.text, merged.is_clash) == (text, is_clash)
    tomllib.loads(merged.text)


def test_a_list_of_skills_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(Invalid, match="skills.toml is not valid TOML"):
        merge_file("skills.toml", base=LIST, ours="", theirs="[")


def test_a_diff_of_the_same_is_empty() -> None:
    assert diff("x", "a\n", "a\n") == ""
    assert diff("x", "a\n", "b\n") == "--- x (before)\n+++ x (after)\n@@ -1,2 +1,2 @@\n-a\n+b\n \n"


def test_a_text_of_thousands_of_equal_lines_is_merged_at_once() -> None:
    base = SOUL + "again\n" * 19_000 + "the end\n"
    ours = base.replace("tone: technical", "tone: formal") + "ours\n"
    merged = merge_file("SOUL.md", base=base, ours=ours, theirs=base.replace("Reviews", "Reads"))
    assert merged.text == ours.replace("Reviews", "Reads")
    assert not merged.is_clash
