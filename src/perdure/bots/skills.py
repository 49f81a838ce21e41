"""Skills: SKILL.md files in the Agent Skills format, the skill list of a bot, and the built-in catalogue."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from perdure.bots.documents import read_document
from perdure.bots.fields import Fields
from perdure.bots.slugs import is_device
from perdure.errors import Invalid, NotFound

SKILL_FILE = "SKILL.md"
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
MOST_SKILLS = 100
_LONGEST_COMPATIBILITY = 500
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_MOST_DOTS = 100
_TEXTS = re.compile(
    r"""
    \"{3}(?:[^"\\]++|\\.|"(?!""))*+"{0,5}
    |'{3}(?:[^']++|'(?!''))*+'{0,5}
    |"(?:[^"\\\n]++|\\[^\n])*+"?
    |'[^'\n]*+'?
    |\#[^\n]*+
    """,
    re.VERBOSE | re.DOTALL,
)
"""Strings and comments of TOML, also unterminated ones; possessive, so that it cannot backtrack."""
_KEYS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})

SkillType = Literal["builtin", "custom", "builder-created"]
_TYPES: tuple[str, ...] = get_args(SkillType)


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill: the description says when to use it, the instructions say how."""

    name: str
    description: str
    instructions: str
    skill_type: SkillType = "custom"


def is_skill_name(name: str) -> bool:
    """Return whether a name is valid for a skill and its folder."""
    return len(name) <= LONGEST_NAME and _NAME.fullmatch(name) is not None and not is_device(name)


def require_skill_name(name: str) -> str:
    """Return a name that is valid for a skill and its folder.

    Raises: Invalid
    """
    if not is_skill_name(name):
        raise Invalid(
            f"{name[:80]!r} is not a valid skill name. Use lower-case letters, digits and single hyphens between them,"
            f" at most {LONGEST_NAME} characters."
        )
    return name


def parse_skill(text: str, name: str, *, folder: str | None = None, skill_type: SkillType = "custom") -> Skill:
    """Parse the text of a SKILL.md; `folder` is the name of its folder.

    Raises: Invalid, naming the file, when it is not in the Agent Skills format.
    """
    document = read_document(text, name)
    fields = Fields(document, name)
    if unknown := [key for key in document.front if key not in _KEYS]:
        raise fields.error(unknown[0], f"is not a key of a skill; the keys are {', '.join(sorted(_KEYS))}")
    skill = Skill(
        name=fields.text("name", LONGEST_NAME),
        description=_description(fields),
        instructions=document.body.strip(),
        skill_type=skill_type,
    )
    if not _NAME.fullmatch(skill.name) or is_device(skill.name):
        raise fields.error("name", "must be lower-case letters, digits and single hyphens between them")
    if folder is not None and skill.name != folder:
        raise fields.error("name", f"is {skill.name!r}, but the folder is {folder!r}; they must be the same")
    _check_optional(fields, document.front)
    if not skill.instructions:
        raise Invalid(f"{name}: There are no instructions after the front matter.")
    return skill


def parse_skill_list(text: str, name: str) -> dict[str, SkillType]:
    """Parse the text of a skills.toml, which has a table for each skill of a bot.

    Raises: Invalid, naming the file.
    """
    tables = read_tables(text, name)
    if len(tables) > MOST_SKILLS:
        raise Invalid(f"{name} names more than {MOST_SKILLS} skills.")
    return {skill: _type_of(skill, table, name) for skill, table in tables.items()}


def read_tables(text: str, name: str) -> dict[str, Any]:
    """Parse TOML. Lines with very many dots are rejected: the parser needs quadratic time for dotted keys.

    Raises: Invalid, naming the file.
    """
    if any(line.count(".") > _MOST_DOTS for line in _TEXTS.sub("", text).split("\n")):
        raise Invalid(f"{name} has more than {_MOST_DOTS} dots in one line, outside of strings.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{name} is not valid TOML: {error}.") from error


@cache
def catalogue() -> Mapping[str, str]:
    """Return the texts of the built-in skills, by name."""
    folder = files("perdure.bots") / "catalogue"
    folders = sorted((each.name, each) for each in folder.iterdir() if (each / SKILL_FILE).is_file())
    return {name: (each / SKILL_FILE).read_text(encoding="utf-8") for name, each in folders}


@cache
def builtin_skills() -> tuple[Skill, ...]:
    """Return the built-in skills."""
    return tuple(builtin_skill(name) for name in catalogue())


def builtin_skill(name: str) -> Skill:
    """Return one built-in skill.

    Raises: NotFound
    """
    if name not in catalogue():
        raise NotFound(f"There is no built-in skill {name[:80]!r}. There are: {', '.join(catalogue())}.")
    return parse_skill(catalogue()[name], f"{name}/{SKILL_FILE}", folder=name, skill_type="builtin")


def _type_of(skill: str, table: Any, name: str) -> SkillType:
    try:
        require_skill_name(skill)
    except Invalid as error:
        raise Invalid(f"{name}: {error.detail}") from error
    if not isinstance(table, dict):
        raise Invalid(f"{name}: {skill!r} must be a table: [{skill}].")
    kind = table.get("skill_type", "custom")
    if kind not in _TYPES:
        raise Invalid(f"{name}: skill_type of {skill!r} must be one of {', '.join(_TYPES)}.")
    return kind  # type: ignore[no-any-return]


def _description(fields: Fields) -> str:
    value = fields.document.front.get("description")
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_DESCRIPTION:
        raise fields.error("description", f"must be a string of 1 to {LONGEST_DESCRIPTION:,} characters")
    return value.strip()


def _check_optional(fields: Fields, front: Mapping[str, Any]) -> None:
    for key in ("license", "allowed-tools", "compatibility"):
        if key in front:
            fields.text(key, _LONGEST_COMPATIBILITY)
    metadata = front.get("metadata", {})
    if not isinstance(metadata, dict) or not all(isinstance(part, str) for pair in metadata.items() for part in pair):
        raise fields.error("metadata", "must have strings as keys and values")
