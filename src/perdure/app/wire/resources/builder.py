"""Sessions of the builder, drafts, past choices, and built bots.

Forge's own classes are the definition of turns, previews, configs and results: it reads them back from its drafts.
"""

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from perdure.app.wire.resources.vocabulary import DescribedBy, Moment
from perdure.forge.vocabulary import BuilderMode, BuilderPhase, EngineName


class Option(TypedDict):
    """An option of a question, with a short description."""

    id: str
    label: str
    description: str


class Suggestion(TypedDict):
    """The option that past choices suggest, with the reason."""

    option_id: str
    reason: str


class Preview(TypedDict):
    """The bot as configured so far."""

    name: str | None
    description: str | None
    personality_summary: str | None
    model: str | None
    skills: list[str]
    phase: str


class EarlierAnswer(TypedDict):
    """The answer that a question had before the person went back; `option_ids` is empty for free text."""

    answer: str
    option_ids: list[str]


class Turn(TypedDict):
    """A turn of the builder: a question or a preview. The present keys depend on `action`."""

    action: Literal["ask_question", "show_preview", "ready_to_assemble", "clarify"]
    phase: NotRequired[str]
    phase_label: NotRequired[str]
    question: NotRequired[str]
    options: NotRequired[list[Option]]
    allow_free_text: NotRequired[bool]
    multiple: NotRequired[bool]
    help: NotRequired[str]
    suggestion: NotRequired[Suggestion | None]
    preview: NotRequired[Preview | None]
    config: NotRequired[dict[str, Any]]
    message: NotRequired[str]
    engine: NotRequired[EngineName]
    note: NotRequired[str]
    earlier: NotRequired[EarlierAnswer | None]


_TURN = DescribedBy("perdure.app.wire.resources.unions:Turn")
_PREVIEW = DescribedBy("perdure.forge.turns:Preview")


class Said(TypedDict):
    """An earlier question with the labels of its options, and its answer.

    `slot` is the part of the configuration that it sets. `option_id` is the chosen option; it is null for several
    options, which are in `option_ids`, and for free text.
    """

    question: str
    options: list[str]
    answer: str
    phase: BuilderPhase
    slot: str
    option_id: str | None
    option_ids: list[str]


class NewSession(TypedDict):
    """A session that was started, with its first turn."""

    session_id: str
    mode: BuilderMode
    turn: Annotated[Turn, _TURN]


class Session(NewSession):
    """A session with its pending turn, the bot as configured so far, and the questions and answers so far.

    `earlier` has the answers to questions that are open again because the person went back.
    """

    phase: BuilderPhase
    initial_description: str
    question_count: int
    revision: int
    engine: EngineName
    preview: Annotated[Preview, _PREVIEW]
    conversation: list[Said]
    earlier: list[Said]


class SessionProgress(TypedDict):
    """The progress of a session."""

    phase: BuilderPhase
    question_count: int


class NextTurn(TypedDict):
    """The turn after an answer."""

    turn: Annotated[Turn, _TURN]
    state_summary: SessionProgress


class SessionChanges(TypedDict):
    """The changes that building the bot would make: a diff for each file.

    `clashes` are files whose edits by hand conflict with the change: the text of Forge is stored as `NAME.new`.
    """

    diffs: dict[str, str]
    clashes: list[str]


class AssemblyResult(TypedDict):
    """A bot that was built, with the paths of its files, relative to the home."""

    bot_id: str
    bot_slug: str
    bot_name: str
    soul_path: str
    identity_path: str
    user_path: str
    skills_attached: list[str]
    version: int
    clashes: list[str]
    set_aside: list[str]
    changed: bool


class Assembly(TypedDict):
    """The bot that was built. Paths are relative to the home."""

    result: Annotated[AssemblyResult, DescribedBy("perdure.forge.assembly.assembly:AssemblyResult")]


class DeletedSession(TypedDict):
    """The session that was deleted."""

    deleted: Literal[True]
    session_id: str


class Draft(TypedDict):
    """An unfinished session. `phase` and `mode` are null if it is damaged."""

    session_id: str
    initial_description: str
    phase: BuilderPhase | None
    mode: BuilderMode | None
    revision: int
    updated_at: Moment


class PastChoice(TypedDict):
    """The choices made for a bot."""

    id: str
    category: str
    initial_description: str
    tone: str | None
    model: str | None
    skills: list[str]
    bot_slug: str | None
    created_at: Moment


class RemovedChoices(TypedDict):
    """The number of deleted choices."""

    removed: int
