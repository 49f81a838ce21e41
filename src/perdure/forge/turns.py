"""What Forge says: a turn, tagged by its action."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from perdure.forge.config import BuilderConfig
from perdure.forge.vocabulary import BuilderPhase


class Wire(BaseModel):
    """A value that goes over the wire and into a draft: nothing unknown, nothing changed."""

    # Every field is written, also one that has its default: a schema of what is sent has to say so.
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


class Option(Wire):
    """One way to answer, with a short reason."""

    id: str
    label: str
    description: str


class Suggestion(Wire):
    """The option that past choices speak for, and how strongly."""

    option_id: str
    reason: str


class Preview(Wire):
    """The bot as far as it is known."""

    name: str | None
    description: str | None
    personality_summary: str | None
    model: str | None
    skills: tuple[str, ...]
    phase: BuilderPhase


class AskQuestion(Wire):
    """One question; an answer that no option gives is free text."""

    action: Literal["ask_question"] = "ask_question"
    phase: BuilderPhase
    question: str
    options: tuple[Option, ...]
    allow_free_text: bool = True
    phase_label: str
    suggestion: Suggestion | None = None
    multiple: bool = False
    """Several options may be chosen."""
    help: str = ""
    """What the answer is used for."""
    preview: Preview | None = None
    """The bot so far; only drafts of earlier versions have none."""


class ShowPreview(Wire):
    """What a phase has come to, to be confirmed. Earlier versions sent it; their drafts still have it."""

    action: Literal["show_preview"] = "show_preview"
    phase: BuilderPhase
    preview: Preview


class ReadyToAssemble(Wire):
    """Everything is known, and is confirmed by assembling it; nothing is built yet."""

    action: Literal["ready_to_assemble"] = "ready_to_assemble"
    config: BuilderConfig
    preview: Preview | None = None
    """As in a question."""


class Clarify(Wire):
    """More has to be said before there is something to ask."""

    action: Literal["clarify"] = "clarify"
    message: str


BuilderTurn = Annotated[AskQuestion | ShowPreview | ReadyToAssemble | Clarify, Field(discriminator="action")]
