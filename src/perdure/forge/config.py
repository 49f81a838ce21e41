"""The config of a bot: complete when the bot is built, partial during the interview."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from perdure.errors import Invalid
from perdure.forge.vocabulary import BotPurpose
from perdure.text.storable import flaw_in

LONGEST_NAME = 120
LONGEST_TEXT = 10_000
LONGEST_CATEGORY = 50
LONGEST_PURPOSE = 8 * LONGEST_TEXT
"""The rewritten description and the answers about it; each may have the maximum length of a text."""
MOST_ANSWERS = 20
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
SKILL_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def _one_line(text: str) -> str:
    shown = " ".join(text.split())
    if not shown or not shown.isprintable():
        raise ValueError("must be one line of printable text")
    return shown


def _clean(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError("it contains control characters")
    if flaw := flaw_in(text):
        raise ValueError(f"it contains {flaw}")
    return text.strip()


Line = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line)]
Text = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_clean)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_one_line)]
Sentence = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT + 200), AfterValidator(_one_line)]
"""An answer to a question of the purpose, as one line."""
Answers = Annotated[dict[Line, Sentence], Field(max_length=MOST_ANSWERS)]
Category = Annotated[str, Field(min_length=1, max_length=LONGEST_CATEGORY), AfterValidator(_one_line)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, protected_namespaces=())


class Personality(_Part):
    """The personality of a bot."""

    tone: Line
    traits: tuple[Line, ...] = Field(default=(), max_length=20)
    purpose: Annotated[str, Field(max_length=LONGEST_PURPOSE), AfterValidator(_clean)] = ""
    boundaries: tuple[Text, ...] = Field(default=(), max_length=20)


class ModelSettings(_Part):
    """The model of a bot, and its sampling settings."""

    model: Line
    temperature: float = Field(ge=0.0, le=2.0, allow_inf_nan=False)
    max_tokens: int = Field(ge=1, le=1_000_000)


class SkillChoice(_Part):
    """A skill that was chosen for a bot."""

    name: Annotated[str, Field(pattern=rf"^{SKILL_NAME.pattern}$", max_length=64)]
    description: Text
    skill_type: Literal["builtin", "custom", "builder-created"] = "builtin"


class BuilderConfig(_Part):
    """The complete config of a bot."""

    name: Name
    description: Text
    category: Category
    purpose: BotPurpose = BotPurpose.OTHER
    """Determines the questions of the interview; without one it follows from the category."""
    answers: Answers = Field(default_factory=dict)
    """Answers to the questions of the purpose, one sentence each, by the name of the question."""
    tags: tuple[Line, ...] = Field(default=(), max_length=20)
    personality: Personality
    model_settings: ModelSettings = Field(validation_alias="model_config", serialization_alias="model_config")
    skills: tuple[SkillChoice, ...] = Field(default=(), max_length=50)

    @model_validator(mode="before")
    @classmethod
    def _with_purpose(cls, values: Any) -> Any:
        """Add the purpose to a config of an earlier version, which has a category only."""
        if isinstance(values, dict) and "purpose" not in values and isinstance(values.get("category"), str):
            return {**values, "purpose": BotPurpose.of_category(values["category"])}
        return values

    def wire(self) -> dict[str, Any]:
        """Return this as JSON."""
        return self.model_dump(mode="json", by_alias=True)


def read_config(wire: Any) -> BuilderConfig:
    """Read a complete config from JSON.

    Raises: Invalid, naming each invalid field.
    """
    try:
        return BuilderConfig.model_validate(wire)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, each['loc'])) or 'config'}: {each['msg']}" for each in error.errors()]
        raise Invalid(f"The config is not valid: {problems[0]}.", errors=problems) from error


class PartialConfig(_Part):
    """The config as far as it is known; each field belongs to one phase."""

    name: Name | None = None
    category: Category | None = None
    purpose: BotPurpose | None = None
    answers: Answers = Field(default_factory=dict)
    description: Text | None = None
    """The new description of an existing bot whose purpose changes."""
    changes: tuple[Line, ...] | None = None
    """The parts of an existing bot that change."""
    tags: tuple[Line, ...] = ()
    focus: Text | None = None
    """This, `audience` and `output` are answers to questions of earlier versions; their drafts still have them."""
    audience: Text | None = None
    output: Text | None = None
    tone: Line | None = None
    traits: tuple[Line, ...] | None = None
    boundaries: tuple[Text, ...] | None = None
    model: Line | None = None
    temperature: float | None = Field(default=None, ge=0.0, le=2.0, allow_inf_nan=False)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    skills: tuple[SkillChoice, ...] | None = None
