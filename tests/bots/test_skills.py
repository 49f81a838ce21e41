"""Skills: the built-in ones are in the format, and what is not is refused by name."""

import pytest

from perdure import Invalid, NotFound
from perdure.bots.skills import builtin_skill, builtin_skills, catalogue, parse_skill
from perdure.forge.categories import DEFAULTS

GOOD = "---\nname: tea\ndescription: makes tea\n---\nBoil water.\n"


def test_the_catalogue_has_every_skill_that_a_kind_of_bot_gets() -> None:
    wanted = {skill for usual in DEFAULTS.values() for skill in usual.skills}
    assert wanted <= set(catalogue())
    assert [skill.name for skill in builtin_skills()] == sorted(catalogue())
    assert all(len(skill.instructions) > 500 and skill.skill_type == "builtin" for skill in builtin_skills())
    with pytest.raises(NotFound, match="no built-in skill 'x'"):
        builtin_skill("x")


def test_a_skill_may_have_all_keys_of_the_format() -> None:
    text = GOOD.replace(
        "---\nBoil",
        "license: MIT\ncompatibility: needs a kettle\nmetadata: {author: Kim}\nallowed-tools: Bash Read\n---\nBoil",
    )
    skill = parse_skill(text, "tea/SKILL.md", folder="tea")
    assert (skill.name, skill.description, skill.instructions) == ("tea", "makes tea", "Boil water.")


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("name: tea", "name: Tea", "SKILL.md:2: 'name' must be lower-case"),
        ("name: tea", "name: te--a", "'name' must be lower-case"),
        ("name: tea", "name: con", "'name' must be lower-case"),
        ("name: tea", "name: coffee", "the folder is 'tea'"),
        ("name: tea", f"name: {'a' * 65}", "'name' must be one line of 1 to 64"),
        ("description: makes tea", "descripton: makes tea", "'descripton' is not a key"),
        ("description: makes tea", "description: ''", "'description' must be a string"),
        ("description: makes tea", f"description: {'x' * 1025}", "1,024"),
        ("description: makes tea", "description: [a]", "'description' must be a string"),
        (
            "description: makes tea",
            "description: a\nmetadata: {a: 1}",
            "'metadata' must have strings as keys and values",
        ),
        ("description: makes tea", f"description: a\ncompatibility: {'x' * 501}", "'compatibility'"),
        ("Boil water.", "", "no instructions"),
    ],
)
def test_a_skill_that_is_not_in_the_format_is_refused(old: str, new: str, match: str) -> None:
    with pytest.raises(Invalid, match=match) as caught:
        parse_skill(GOOD.replace(old, new), "tea/SKILL.md", folder="tea")
    assert "tea/SKILL.md" in str(caught.value)
