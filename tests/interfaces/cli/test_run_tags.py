"""`perdure run --tag`: labels of a new goal."""

from tests.interfaces.cli.terminal import Terminal


def test_tags_are_recorded_with_the_goal(perdure: Terminal) -> None:
    assert perdure.json("run", "--tag", "team:shop", "--tag", "größe/2", "--", "true")["tags"] == [
        "team:shop",
        "größe/2",
    ]


def test_an_invalid_tag_is_refused_before_anything_is_stored(perdure: Terminal) -> None:
    assert perdure("run", "--tag", "a b", "--", "true") == 2
    assert "Invalid tag: expected 1 to 64 characters" in perdure.err
    assert perdure("run", "--tag", "a", "--tag", "a", "--", "true") == 2
    assert perdure.goals() == []


def test_tags_are_for_a_new_goal(perdure: Terminal) -> None:
    assert perdure("run", "--continue", "--tag", "a") == 2
    assert "--tag applies to a new goal" in perdure.err
