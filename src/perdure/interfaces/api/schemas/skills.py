"""Skills that a bot can have, built in or created here."""

from typing import Literal

from pydantic import BaseModel

SkillOrigin = Literal["builtin", "custom", "builder-created"]


class SkillSummary(BaseModel):
    """A skill in a list."""

    name: str
    description: str
    origin: SkillOrigin


class Skill(SkillSummary):
    """A skill, with its instructions for a bot."""

    instructions: str
