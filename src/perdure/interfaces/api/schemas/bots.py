"""Bots, their files and their versions."""

from typing import Literal

from pydantic import BaseModel, Field

from perdure.forge.config import ModelSettings
from perdure.forge.ports import Origin, VersionState
from perdure.interfaces.api.schemas.envelopes import Moment


class BotSummary(BaseModel):
    """A bot in a list."""

    id: str
    slug: str
    name: str
    category: str
    version: int
    state: VersionState
    created_at: Moment
    updated_at: Moment


class Bot(BaseModel):
    """A bot as its files on disk define it. `edits` has a diff for each file that was edited by hand.

    `etag` is the value of the `ETag` header without its quotes. It changes whenever a file is edited.
    """

    id: str
    slug: str
    name: str
    category: str
    tone: str
    traits: list[str]
    purpose: str
    boundaries: list[str]
    settings: ModelSettings = Field(alias="model_config")
    skills: list[str]
    version: int
    files: list[str]
    edits: dict[str, str]
    etag: str
    prompt: str


class BotFile(BaseModel):
    """One file of a bot."""

    name: str
    text: str
    sha256: str


class BotVersion(BaseModel):
    """A version of a bot, with the SHA-256 of each of its files."""

    number: int
    state: VersionState
    origin: Origin
    sha256: dict[str, str]
    created_at: Moment


class DeletedBot(BaseModel):
    """The bot that was deleted."""

    deleted: Literal[True]
    slug: str
