"""Makes a skill from a description: its name, and its SKILL.md in the Agent Skills format."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from perdure.bots.bot import skill_path
from perdure.bots.documents import write_document
from perdure.bots.skill_folder import TYPE_KEY, read_own_skill
from perdure.bots.skills import LONGEST_DESCRIPTION, LONGEST_NAME, Skill, require_skill_name
from perdure.bots.slugs import slug_of
from perdure.errors import Invalid
from perdure.forge.capabilities import (
    CAPABILITIES,
    SuggestedCapability,
    require_capabilities,
    suggest_capabilities,
)
from perdure.forge.config import Line, Text

MOST_CAPABILITIES = 20
_MOST_WORDS = 5
_REASONS = {"too_short": "it is empty", "string_too_short": "it is empty"}
"""Clearer messages for some error types of pydantic."""


class SkillRequest(BaseModel):
    """A request for a new skill."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] | None = None
    """Default: made from the first words of the description."""
    description: Annotated[Text, Field(min_length=1)]
    capabilities: tuple[Line, ...] | None = Field(default=None, max_length=MOST_CAPABILITIES)
    """Default: those that the description suggests."""

    def resolve_capabilities(self) -> list[SuggestedCapability]:
        """Return the capabilities of the skill, each with its reason.

        Raises: Invalid when one is unknown.
        """
        if self.capabilities is None:
            return suggest_capabilities(self.description)
        return [SuggestedCapability(each.name, "you asked for it") for each in require_capabilities(self.capabilities)]


def read_skill_request(wire: Any) -> SkillRequest:
    """Read a request from JSON.

    Raises: Invalid, naming each invalid field.
    """
    try:
        return SkillRequest.model_validate(wire)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, each['loc'])) or 'skill_request'}: {_REASONS.get(each['type'], each['msg'])}"
            for each in error.errors()
        ]
        raise Invalid(f"Invalid request for a skill: {problems[0]}.", errors=problems) from error


def make_skill(request: SkillRequest) -> tuple[Skill, str]:
    """Return the skill of a request and the text of its SKILL.md; the same request returns the same skill.

    Raises: Invalid when the text does not have the requested values after it is parsed.
    """
    description = " ".join(request.description.split())
    if not description:
        raise Invalid("A skill needs a description: what it is for, and how it is done.")
    name = require_skill_name(_name_of(description) if request.name is None else request.name)
    front = {
        "name": name,
        "description": description[:LONGEST_DESCRIPTION].strip(),
        "metadata": {TYPE_KEY: "builder-created"},
    }
    text = write_document(front, _body(name, request))
    skill = read_own_skill(name, text)
    if (skill.name, skill.description, skill.skill_type) != (name, front["description"], "builder-created"):
        raise Invalid(f"{skill_path(name)} cannot store this description: it is read as {skill.description!r:.200}.")
    return skill, text


def _name_of(line: str) -> str:
    """Return a name made from the first words of a description."""
    return slug_of(" ".join(line.split(" ")[:_MOST_WORDS]), "skill")


def _body(name: str, request: SkillRequest) -> str:
    parts = [f"# {name.replace('-', ' ').capitalize()}", request.description]
    if capabilities := request.resolve_capabilities():
        lines = [f"- {each.name}: {CAPABILITIES[each.name].instruction}" for each in capabilities]
        parts += ["## What it may use", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"
