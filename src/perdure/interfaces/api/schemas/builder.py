"""Sessions of the builder: the turns that it sends, the answers that it takes, and the bot or skill that is built."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from perdure.forge.answers import Back, Confirm, FreeText, OptionIndex, OptionIndexes
from perdure.forge.assembly.assembly import AssemblyResult
from perdure.forge.config import BuilderConfig
from perdure.forge.turns import BuilderTurn, Preview
from perdure.forge.vocabulary import BuilderMode, BuilderPhase
from perdure.interfaces.api.schemas.envelopes import DescribedBy, Moment
from perdure.interfaces.api.schemas.skills import SkillOrigin


class Turn(RootModel[BuilderTurn]):
    """What the builder asks or shows, by `action`."""


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
    answer: Annotated[Any, DescribedBy(Answer)]


class AssembleBody(BaseModel):
    """The whole config, edited or as `ready_to_assemble` shows it (default: as it shows it)."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{}]})
    config: Annotated[dict[str, Any], DescribedBy(BuilderConfig)] | None = None


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


class NewSession(BaseModel):
    """A session that was started, with its first turn."""

    session_id: str
    mode: BuilderMode
    turn: Turn


class Said(BaseModel):
    """A question as it was asked, with the labels of its options, and its answer."""

    question: str
    options: list[str]
    answer: str
    phase: BuilderPhase


class Session(NewSession):
    """A session, with the turn that waits for an answer, the bot so far, and what was asked and answered."""

    phase: BuilderPhase
    initial_description: str
    question_count: int
    revision: int
    preview: Preview
    conversation: list[Said]


class SessionProgress(BaseModel):
    """How far a session is."""

    phase: BuilderPhase
    question_count: int


class NextTurn(BaseModel):
    """The turn after an answer."""

    turn: Turn
    state_summary: SessionProgress


class Assembly(BaseModel):
    """The bot that was built. Paths are relative to the home."""

    result: AssemblyResult


class SkillCapability(BaseModel):
    """What a skill may use, and why."""

    name: str
    reason: str


class CreatedSkill(BaseModel):
    """A skill, and the path of its file, relative to the home."""

    name: str
    description: str
    origin: SkillOrigin
    path: str
    capabilities: list[SkillCapability]


class SkillCreation(BaseModel):
    """The skill that was created."""

    result: CreatedSkill


class DeletedSession(BaseModel):
    """The session that was deleted."""

    deleted: Literal[True]
    session_id: str


class Draft(BaseModel):
    """A session that is not finished. `phase` and `mode` are null if it is damaged."""

    session_id: str
    initial_description: str
    phase: BuilderPhase | None
    mode: BuilderMode | None
    revision: int
    updated_at: Moment


class PastChoice(BaseModel):
    """What was chosen for a bot."""

    id: str
    category: str
    initial_description: str
    tone: str | None
    model: str | None
    skills: list[str]
    bot_slug: str | None
    created_at: Moment


class RemovedChoices(BaseModel):
    """How many choices were removed."""

    removed: int
