"""Turns of an interview, tagged by their action."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from perdure.forge.config import BuilderConfig
from perdure.forge.vocabulary import BuilderPhase, EngineName


class Wire(BaseModel):
    """A value of the wire format and of drafts: frozen, and without unknown fields."""

    # Every field is written, also with its default; the schema of responses must say so.
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_serialization_defaults_required=True)


class Option(Wire):
    """An answer that is offered, with a short reason."""

    id: str
    label: str
    description: str


class Suggestion(Wire):
    """The suggested option, with the reason."""

    option_id: str
    reason: str


class Preview(Wire):
    """The bot as far as it is known; values of later phases are null."""

    name: str | None
    description: str | None
    personality_summary: str | None
    model: str | None
    skills: tuple[str, ...]
    phase: BuilderPhase


class EarlierAnswer(Wire):
    """The answer that a question had before the person went back."""

    answer: str
    """The labels of the chosen options, or the free text."""
    option_ids: tuple[str, ...] = ()
    """The ids of the chosen options; empty for free text."""


class AskQuestion(Wire):
    """One question, with its options."""

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
    """The bot so far; null only in drafts of earlier versions."""
    engine: EngineName = "builtin"
    """The engine that worded the question and its options."""
    note: str = ""
    """Why the built-in interviewer asks in a session that a model leads; otherwise empty."""
    earlier: EarlierAnswer | None = None
    """The answer before the person went back; null if there was none, or it is not offered any more."""


class ShowPreview(Wire):
    """The result of a phase, to be confirmed. Only drafts of earlier versions have it."""

    action: Literal["show_preview"] = "show_preview"
    phase: BuilderPhase
    preview: Preview


class ReadyToAssemble(Wire):
    """The complete config, to be confirmed by assembling it."""

    action: Literal["ready_to_assemble"] = "ready_to_assemble"
    config: BuilderConfig
    preview: Preview | None = None
    """The whole bot; null only in drafts of earlier versions."""
    engine: EngineName = "builtin"
    """See AskQuestion.engine."""
    note: str = ""
    """See AskQuestion.note."""


class Clarify(Wire):
    """A request for a longer description."""

    action: Literal["clarify"] = "clarify"
    message: str
    engine: EngineName = "builtin"
    """See AskQuestion.engine."""
    note: str = ""
    """See AskQuestion.note."""


BuilderTurn = Annotated[AskQuestion | ShowPreview | ReadyToAssemble | Clarify, Field(discriminator="action")]
