"""The state of a session: all that there is to know about an interview, and so all that a draft keeps."""

from typing import Any

import orjson
from pydantic import Field, ValidationError

from perdure.errors import Damaged
from perdure.forge.config import BuilderConfig, PartialConfig
from perdure.forge.turns import BuilderTurn, Wire
from perdure.forge.vocabulary import BotPurpose, BuilderMode, BuilderPhase, PurposeCategory

KEEP = "keep"
"""The option that leaves a bot as it is."""
WISHED = "wished"
"""The option that is what the request to change a bot names."""
_HINT = " (Other: "
"""Where a question begins to say what may be typed, which is of use only while it is asked."""


class Exchange(Wire):
    """A question as it was asked, and its answer as it was given."""

    question: str
    options: tuple[str, ...]
    answer: str
    """The label of the chosen option, or the free text."""
    phase: BuilderPhase
    slot: str
    """What the question was for."""
    option_id: str | None = None
    """The chosen option; None is free text, or several options."""
    option_ids: tuple[str, ...] = ()
    """The chosen options, where there are several."""

    @property
    def asked(self) -> str:
        """The question as one reads it later."""
        return without_hint(self.question)

    @property
    def said(self) -> str:
        """What was answered; that something is kept, by what it is."""
        return self.answer.removeprefix("Keep ") if self.option_id == KEEP else self.answer


class PastChoice(Wire):
    """What was chosen for a bot before."""

    category: str
    tone: str
    model: str
    skills: tuple[str, ...]
    purpose: BotPurpose | None = None
    """None in drafts of earlier versions, which knew a category alone."""


class Surroundings(Wire):
    """What an interview knew of the world when it began; kept, so that a resumed one asks the same."""

    models: tuple[str, ...] = ()
    past: tuple[PastChoice, ...] = ()
    """The newest first."""
    skills: tuple[tuple[str, str], ...] = ()
    """Names and descriptions of the skills that there are."""


class Target(Wire):
    """The bot that a reconfiguration is about, as it was when that began."""

    bot_id: str
    slug: str
    config: dict[str, Any]
    version: int


class BuilderState(Wire):
    """One conversation, from the wish to the whole config."""

    session_id: str
    mode: BuilderMode
    phase: BuilderPhase = BuilderPhase.BASICS
    initial_description: str
    clarifications: tuple[str, ...] = ()
    purpose_category: str = PurposeCategory.CUSTOM
    conversation: tuple[Exchange, ...] = ()
    config: PartialConfig = Field(default_factory=PartialConfig)
    phase_history: tuple[BuilderPhase, ...] = ()
    pending_turn: BuilderTurn | None = None
    pending_slot: str | None = None
    target: Target | None = None
    surroundings: Surroundings = Field(default_factory=Surroundings)

    @property
    def description(self) -> str:
        """All that the person said the bot is for; what was said twice counts once."""
        if not self.clarifications:
            return self.initial_description
        return "\n".join(dict.fromkeys([self.initial_description, *self.clarifications]))

    @property
    def about(self) -> str:
        """What the bot is for, as far as it is known: of an existing bot, its description or the new one."""
        if self.target is None:
            return self.description
        return self.config.description or str(self.target.config.get("description") or "")

    @property
    def is_repurposed(self) -> bool:
        """Whether an existing bot is to be for something else: what its old purpose implied holds no more."""
        if self.target is None:
            return False
        old = BuilderConfig.model_validate(self.target.config)
        return self.purpose != old.purpose or self.config.description not in (None, old.description)

    @property
    def has_request(self) -> bool:
        """Whether the person said what is to change of an existing bot."""
        return self.target is not None and self.initial_description != f"Change {self.target.slug}"

    @property
    def purpose(self) -> BotPurpose:
        """What the bot is for; drafts of earlier versions have a category alone."""
        if self.config.purpose is not None:
            return self.config.purpose
        if self.target is not None:
            return BuilderConfig.model_validate(self.target.config).purpose
        return BotPurpose.of_category(self.purpose_category)

    @property
    def question_count(self) -> int:
        """How many questions were answered."""
        return len(self.conversation)

    @property
    def kind(self) -> PurposeCategory:
        return PurposeCategory.of(self.purpose_category)

    def answer_to(self, slot: str) -> Exchange | None:
        """Return what was said about something, if it was asked."""
        return next((exchange for exchange in self.conversation if exchange.slot == slot), None)

    def text(self) -> str:
        """Write the state as a draft keeps it."""
        return orjson.dumps(self.model_dump(mode="json", by_alias=True)).decode()


def without_hint(question: str) -> str:
    """Return a question as one reads it when it was answered, without what may be typed."""
    return question.partition(_HINT)[0]


def read_state(text: str) -> BuilderState:
    """Read a state as a draft keeps it.

    Raises: Damaged
    """
    try:
        state = BuilderState.model_validate_json(text)
        if state.target is not None:
            BuilderConfig.model_validate(state.target.config)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "its JSON"
        raise Damaged(f"The draft cannot be read: {where} is not right.") from error
    return state
