"""The questions that only bots of one purpose are asked, and the sentences that their answers add to the files."""

from dataclasses import dataclass
from typing import Literal

from perdure.errors import Invalid
from perdure.forge.categories import keywords_of
from perdure.forge.config import Sentence
from perdure.forge.questions.slot import Fields, Question, Slot, option
from perdure.forge.second_person import about_user
from perdure.forge.state import BuilderState
from perdure.forge.turns import Suggestion
from perdure.forge.vocabulary import BotPurpose, BuilderPhase

__all__ = ["Preset", "PurposeQuestion", "purpose_slot"]


_OPEN = option("open", "Leave it open", "nothing is assumed")


@dataclass(frozen=True)
class Preset:
    """An answer that is offered as an option."""

    id: str
    label: str
    why: str
    sentence: Sentence
    """The sentence in the file: an instruction to the bot, or a fact about the person."""
    words: str = ""
    """Words of a description that choose this answer."""


@dataclass(frozen=True)
class PurposeQuestion:
    """A question that only bots of one purpose are asked."""

    name: str
    text: str
    template: str
    """The sentence in the file for free text, with `{}` in place of it."""
    presets: tuple[Preset, ...]
    about: Literal["bot", "user"] = "bot"
    """The subject of the answer, and so its file: SOUL.md, or USER.md."""
    neutral: str = ""
    """The id of the neutral preset, which is suggested if the description chooses none."""
    is_assumption: bool = False
    """Whether every preset would assume something that only the person can know; the question can be left open."""

    @property
    def can_be_open(self) -> bool:
        """Whether the question can be left open, which is then the suggestion."""
        return self.about == "user" or self.is_assumption

    def sentence_of(self, text: str) -> str:
        """Return the sentence for an answer in the person's own words."""
        line = " ".join(text.split()).rstrip(".")
        if not line or not line.isprintable():
            raise Invalid("The answer must be one line of printable text.")
        return self.template.format(about_user(line, is_known=True))


def purpose_slot(purpose: BotPurpose, question: PurposeQuestion) -> Slot:
    """Return the slot that asks a question of a purpose."""
    presets = {preset.id: preset for preset in question.presets}

    def from_description(state: BuilderState) -> Fields:
        keywords = keywords_of(state.about).keys()
        matching = [preset for preset in question.presets if keywords & set(preset.words.split())]
        return _with_answer(state, question.name, matching[0].sentence) if len(matching) == 1 else {}

    where = "SOUL.md, as an instruction to the bot" if question.about == "bot" else "USER.md, as a fact about you"
    return Slot(
        f"{purpose}.{question.name}",
        BuilderPhase.BASICS,
        ("answers",),
        ask=lambda _state: _question_of(question),
        choose=lambda state, chosen: (
            {} if chosen == _OPEN.id else _with_answer(state, question.name, presets[chosen].sentence)
        ),
        read=lambda state, text: _with_answer(state, question.name, question.sentence_of(text)),
        from_description=from_description,
        help=f"The answer is written into {where}.",
    )


def _question_of(question: PurposeQuestion) -> Question:
    options = [option(each.id, each.label, each.why) for each in question.presets]
    if not question.can_be_open:
        neutral = Suggestion(option_id=question.neutral, reason="you named none") if question.neutral else None
        return Question(question.text, options, neutral)
    return Question(question.text, [*options, _OPEN], Suggestion(option_id=_OPEN.id, reason="you can add it later"))


def _with_answer(state: BuilderState, name: str, sentence: str) -> Fields:
    return {"answers": {**state.config.answers, name: sentence}}
