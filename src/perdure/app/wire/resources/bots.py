"""Bots, their files and versions, and skills."""

from typing import Annotated, Literal

from typing_extensions import TypedDict

from perdure.app.wire.resources.vocabulary import DescribedBy, Moment, Schema
from perdure.bots.provenance import Kind
from perdure.forge.ports import Origin, VersionState
from perdure.forge.vocabulary import BotPurpose

SkillOrigin = Literal["builtin", "custom", "builder-created"]


class BotSummary(TypedDict):
    """A bot in a list. `bot_purpose` is its purpose; `category` is the group of purposes whose defaults it has."""

    id: str
    slug: str
    name: str
    category: str
    bot_purpose: BotPurpose
    version: int
    state: VersionState
    created_at: Moment
    updated_at: Moment


class ModelSettings(TypedDict):
    """The model of a bot, with its temperature and limit of tokens."""

    model: str
    temperature: float
    max_tokens: int


class Bot(TypedDict):
    """A bot with its current files. `edits` has a diff for each file that was edited by hand.

    `folder` contains its files, on the machine of the home. `updated_at` is the creation time of the version. `etag` is
    the value of the `ETag` header without its quotes; it changes whenever a file is edited.
    """

    id: str
    slug: str
    name: str
    category: str
    bot_purpose: BotPurpose
    tone: str
    traits: list[str]
    purpose: str
    boundaries: list[str]
    model_config: Annotated[ModelSettings, DescribedBy("perdure.forge.config:ModelSettings")]
    skills: list[str]
    version: int
    files: list[str]
    edits: dict[str, str]
    etag: str
    prompt: str
    folder: str
    updated_at: Moment


class BotFile(TypedDict):
    """One file of a bot."""

    name: str
    text: str
    sha256: str


class BotVersion(TypedDict):
    """A version of a bot, with the SHA-256 of its files, and those edited by hand since the version before."""

    number: int
    state: VersionState
    origin: Origin
    hand_edits: list[str]
    sha256: dict[str, str]
    created_at: Moment


class LineSource(TypedDict):
    """The source of a line; `exchange` is the number of a question of the interview, from 0."""

    kind: Kind
    exchange: int | None


class BotExplanation(TypedDict):
    """The source of a line of a file. `source` is null if the line was edited by hand."""

    path: str
    line: int
    text: str
    source: LineSource | None
    question: str | None
    answer: str | None


class BotProblems(TypedDict):
    """The problems of a bot's files, one sentence each; empty if all files can be read."""

    slug: str
    problems: list[str]


class BotArchive(TypedDict):
    """An archive of a bot: a zip file of its texts, with its SHA-256."""

    slug: str
    archive: Annotated[str, Schema(contentEncoding="base64", contentMediaType="application/zip")]
    sha256: str


class DeletedBot(TypedDict):
    """The bot that was deleted."""

    deleted: Literal[True]
    slug: str


class SkillSummary(TypedDict):
    """A skill in a list."""

    name: str
    description: str
    origin: SkillOrigin


class Skill(SkillSummary):
    """A skill, with its instructions for a bot."""

    instructions: str


class SkillCapability(TypedDict):
    """A capability of a skill, with the reason."""

    name: str
    reason: str


class CreatedSkill(SkillSummary):
    """A skill with the path of its file, relative to the home."""

    path: str
    capabilities: list[SkillCapability]


class SkillCreation(TypedDict):
    """The skill that was created."""

    result: CreatedSkill
