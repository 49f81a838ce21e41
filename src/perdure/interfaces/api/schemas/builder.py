"""Request bodies for sessions of the builder."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from perdure.app.builder.values import Back, BuilderConfig, Confirm, FreeText, OptionIndex, OptionIndexes
from perdure.app.builder.vocabulary import EngineName
from perdure.interfaces.api.schemas.envelopes import ReadBy

_ENGINE = "What leads the interview: `builtin` or `model` (default: the model, if one is configured)."


class Answer(RootModel[OptionIndex | OptionIndexes | FreeText | Confirm | Back | Literal["back"]]):
    """An answer to the pending turn. `"back"` returns to the phase before, `{"back": PHASE}` to a chosen one."""


class SessionBody(BaseModel):
    """A description of the bot to build."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"description": "a timer for pasta"}]}
    )
    description: Annotated[str, Field(max_length=100_000)]
    mode: Literal["bot"] = "bot"
    engine: Annotated[EngineName | None, Field(description=_ENGINE)] = None


class AnswerBody(BaseModel):
    """An answer to the pending turn, in a form that the turn accepts."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"answer": {"option_index": 0}}, {"answer": {"free_text": "Ada"}}]},
    )
    answer: Annotated[Any, ReadBy(Answer)]
    engine: Annotated[
        EngineName | None,
        Field(description="The engine that leads the session from this answer on (default: as before)."),
    ] = None


class AssembleBody(BaseModel):
    """The whole configuration, optionally edited (default: the one of `ready_to_assemble`)."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{}]})
    config: Annotated[dict[str, Any], ReadBy(BuilderConfig)] | None = None


class ReconfigureBody(BaseModel):
    """The bot to change."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"bot_slug": "pasta-timer"}]}
    )
    bot_slug: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    description: Annotated[str, Field(max_length=10_000)] = ""
    engine: Annotated[EngineName | None, Field(description=_ENGINE)] = None


class SkillRequestBody(BaseModel):
    """A description of a skill. `name` and `capabilities` default to values derived from the description."""

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
