"""Which hand edits a version lacks that the version before it had."""

import pytest

from perdure.forge.assembly.hand_edits import dropped_edits, edited_files
from perdure.forge.ports import VersionSummary

History = list[tuple[str, bool]]
"""For each version the text of SOUL.md, and whether it was edited by hand before that."""


def summaries(history: History) -> list[VersionSummary]:
    """Return versions as a store does: the newest first."""
    return [
        VersionSummary(
            number=number,
            state="past",
            origin="reconfigure",
            sha256={"USER.md": "u", **({"SOUL.md": text} if text else {})},
            created_at_us=number,
            hand_edits=["SOUL.md"] if is_edited else [],
        )
        for number, (text, is_edited) in reversed(list(enumerate(history, 1)))
    ]


@pytest.mark.parametrize(
    ("history", "is_dropped"),
    [
        ([("a", False), ("b", False), ("a", False)], False),
        ([("a", False), ("b", True), ("a", False)], True),
        ([("a", False), ("b", True), ("c", False), ("a", False)], True),
        ([("a", False), ("b", True), ("c", False), ("b", False)], False),
        ([("a", False), ("b", True), ("c", True), ("b", False)], True),
        ([("a", False), ("b", True), ("a", False), ("c", False), ("a", False)], False),
        ([("a", False), ("b", True), ("a", False), ("b", False), ("a", False)], True),
        ([("a", False), ("b", True), ("a", False), ("b", False), ("a", False), ("d", False), ("a", False)], False),
        ([("a", False), ("b", True), ("a", False), ("b", False), ("d", False), ("a", False)], True),
        ([("", False), ("b", True), ("", False)], True),
        ([("", False), ("b", False), ("", False)], False),
        ([("", False), ("b", False), ("c", True), ("", False)], True),
    ],
)
def test_an_edit_is_dropped_by_a_version_that_lacks_it(history: History, is_dropped: bool) -> None:
    dropped = dropped_edits(summaries(history), len(history))
    assert dropped == (frozenset({"SOUL.md"}) if is_dropped else frozenset())


def test_versions_after_the_one_that_is_asked_about_do_not_count() -> None:
    history = [("a", False), ("b", True), ("a", False)]
    assert dropped_edits(summaries([*history, ("b", False)]), 3) == {"SOUL.md"}


def test_a_file_is_edited_when_its_text_is_another_or_only_one_side_has_it() -> None:
    version = {"SOUL.md": "a", "USER.md": "a", "SOUL.md.new": "ours", "skills/x/SKILL.md": "x"}
    disk = {"SOUL.md": "b", "USER.md": "a", "skills/tea/SKILL.md": "tea"}
    assert edited_files(version, disk) == ("SOUL.md", "skills/tea/SKILL.md", "skills/x/SKILL.md")
