"""The state of a session, which a draft stores."""

from typing import Any

import orjson
from pydantic import ConfigDict, Field, ValidationError

from perdure.errors import Damaged
from perdure.forge.config import BuilderConfig, PartialConfig
from perdure.forge.turns import AskQuestion, BuilderTurn, EarlierAnswer, Wire
from perdure.forge.vocabulary import BotPurpose, BuilderMode, BuilderPhase, EngineName, PurposeCategory

KEEP = "keep"
"""Id of the option that keeps the present value."""
REQUESTED = "wished"
"""Id of the option with the value that the change request names."""
MODEL_OPTION = "words-"
"""Prefix of the id of an option that a model worded; its label is read as an answer in the person's own words."""
_HINT = " (Other: "
"""Start of the part of a question that describes free text; it is shown only while the question is pending."""


class Exchange(Wire):
    """A question and its answer."""

    question: str
    options: tuple[str, ...]
    answer: str
    """The label of the chosen option, or the free text."""
    phase: BuilderPhase
    slot: str
    """The name of the slot of the question."""
    option_id: str | None = None
    """The id of the chosen option; None for free text, or several options."""
    option_ids: tuple[str, ...] = ()
    """The ids of the chosen options, if there are several."""

    @property
    def question_text(self) -> str:
        """The question without its hint about free text."""
        return without_hint(self.question)

    @property
    def answer_text(self) -> str:
        """The answer; if the present value was kept, that value."""
        return self.answer.removeprefix("Keep ") if self.option_id == KEEP else self.answer


class PastChoice(Wire):
    """The choices that were made for an earlier bot."""

    category: str
    tone: str
    model: str
    skills: tuple[str, ...]
    purpose: BotPurpose | None = None
    """None in drafts of earlier versions, which stored a category only."""


class InterviewContext(Wire):
    """What an interview knows about its home. It is part of the draft, so that a resumed session asks the same."""

    models: tuple[str, ...] = ()
    default_model: str | None = None
    """The default model when the interview began, if one was configured."""
    past: tuple[PastChoice, ...] = ()
    """Newest first."""
    skills: tuple[tuple[str, str], ...] = ()
    """Names and descriptions of all skills."""


class Target(Wire):
    """The bot that a session reconfigures, as it was when the session began."""

    bot_id: str
    slug: str
    config: dict[str, Any]
    version: int


class BuilderState(Wire):
    """The state of one session, from the description to the complete config."""

    model_config = ConfigDict(populate_by_name=True)

    session_id: str
    mode: BuilderMode
    phase: BuilderPhase = BuilderPhase.BASICS
    initial_description: str
    clarifications: tuple[str, ...] = ()
    purpose_category: str = PurposeCategory.CUSTOM
    conversation: tuple[Exchange, ...] = ()
    earlier: tuple[Exchange, ...] = ()
    """Answers to questions that are open again because the person went back; each is shown with its question."""
    config: PartialConfig = Field(default_factory=PartialConfig)
    phase_history: tuple[BuilderPhase, ...] = ()
    pending_turn: BuilderTurn | None = None
    pending_slot: str | None = None
    target: Target | None = None
    engine: EngineName = "builtin"
    """The engine that makes the next turn."""
    stated: tuple[str, ...] = ()
    """The slots that a model has read from what the person said, without asking about them."""
    context: InterviewContext = Field(
        default_factory=InterviewContext, validation_alias="surroundings", serialization_alias="surroundings"
    )

    @property
    def description(self) -> str:
        """The description with all clarifications, without repetitions."""
        if not self.clarifications:
            return self.initial_description
        return "\n".join(dict.fromkeys([self.initial_description, *self.clarifications]))

    @property
    def about(self) -> str:
        """The description of the bot; in a reconfiguration, the new one or else that of the bot."""
        if self.target is None:
            return self.description
        return self.config.description or str(self.target.config.get("description") or "")

    @property
    def is_repurposed(self) -> bool:
        """Whether a reconfiguration changes the purpose or the description of the bot."""
        if self.target is None:
            return False
        old = BuilderConfig.model_validate(self.target.config)
        return self.purpose != old.purpose or self.config.description not in (None, old.description)

    @property
    def has_request(self) -> bool:
        """Whether the person described the change of an existing bot."""
        return self.target is not None and self.initial_description != f"Change {self.target.slug}"

    @property
    def request(self) -> str:
        """What the person asked to change, when the interview began and in answer to its first question."""
        changes = self.answer_to("changes")
        is_typed = changes is not None and changes.option_id is None and not changes.option_ids
        typed = (changes.answer,) if changes is not None and is_typed else ()
        return "\n".join([*([self.initial_description] if self.has_request else []), *typed])

    @property
    def purpose(self) -> BotPurpose:
        """The purpose of the bot; drafts of earlier versions have a category only."""
        if self.config.purpose is not None:
            return self.config.purpose
        if self.target is not None:
            return BuilderConfig.model_validate(self.target.config).purpose
        return BotPurpose.of_category(self.purpose_category)

    @property
    def question_count(self) -> int:
        """Number of answered questions."""
        return len(self.conversation)

    @property
    def kind(self) -> PurposeCategory:
        """The category, which has the defaults."""
        return PurposeCategory.of(self.purpose_category)

    def answer_to(self, slot: str) -> Exchange | None:
        """Return the exchange of a slot, if it was asked."""
        return next((exchange for exchange in self.conversation if exchange.slot == slot), None)

    def earlier_answer(self, turn: AskQuestion) -> EarlierAnswer | None:
        """Return the answer that the pending question had before the person went back, if it can be given again."""
        found = next((exchange for exchange in self.earlier if exchange.slot == self.pending_slot), None)
        if found is None:
            return None
        ids = found.option_ids or ((found.option_id,) if found.option_id else ())
        if all(each.startswith(MODEL_OPTION) for each in ids):
            return EarlierAnswer(answer=found.answer)
        offered = {each.id: each.label for each in turn.options}
        is_offered = found.answer == ", ".join(offered.get(each, "") for each in ids)
        return EarlierAnswer(answer=found.answer, option_ids=ids) if is_offered else None

    def text(self) -> str:
        """Return the state as a draft stores it."""
        return orjson.dumps(self.model_dump(mode="json", by_alias=True)).decode()


def without_hint(question: str) -> str:
    """Return a question without its hint about free text."""
    return question.partition(_HINT)[0]


def read_state(text: str) -> BuilderState:
    """Read a state from the text of a draft.

    Raises: Damaged
    """
    try:
        state = BuilderState.model_validate_json(text)
        if state.target is not None:
            BuilderConfig.model_validate(state.target.config)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "its JSON"
        raise Damaged(f"The draft cannot be read: {where} is not valid.") from error
    return state
