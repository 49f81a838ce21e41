"""Sessions of the builder: what a caller sends to start, answer and finish one."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from perdure.forge.answers import Back, Confirm, FreeText, OptionIndex, OptionIndexes
from perdure.forge.config import BuilderConfig
from perdure.interfaces.api.schemas.envelopes import ReadBy


class Answer(RootModel[OptionIndex | OptionIndexes | FreeText | Confirm | Back | Literal["back"]]):
    """An answer to the pending turn. `"back"` returns to the phase before, `{"back": PHASE}` to a chosen one."""


class SessionBody(BaseModel):
    """A description of the bot to build."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"description": "a timer for pasta"}]}
    )
    description: Annotated[str, Field(max_length=100_000)]
    mode: Literal["bot"] = "bot"
    engine: Literal["builtin"] = "builtin"


class AnswerBody(BaseModel):
    """An answer to the pending turn, of the kind that the turn takes."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"answer": {"option_index": 0}}, {"answer": {"free_text": "Ada"}}]},
    )
    answer: Annotated[Any, ReadBy(Answer)]


class AssembleBody(BaseModel):
    """The whole config, edited or as `ready_to_assemble` shows it (default: as it shows it)."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{}]})
    config: Annotated[dict[str, Any], ReadBy(BuilderConfig)] | None = None


class ReconfigureBody(BaseModel):
    """The bot to change."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"bot_slug": "pasta-timer"}]}
    )
    bot_slug: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    description: Annotated[str, Field(max_length=10_000)] = ""


class SkillRequestBody(BaseModel):
    """What a skill is for. Without `name` and `capabilities`, both are made from the description."""

    model_config = ConfigDict(extra="forbid", strict=True)
    description: Annotated[str, Field(min_length=1, max_length=10_000)]
    name: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    capabilities: Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(max_length=20)] | None = (
        None
    )


class CreateSkillBody(BaseModel):
    """The skill to create."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"skill_request": {"description": "Convert amounts between currencies"}}]},
    )
    skill_request: SkillRequestBody
