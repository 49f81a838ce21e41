"""Which questions each purpose has of its own."""

from perdure.forge.questions import life, work
from perdure.forge.questions.own import OwnQuestion, own_slot
from perdure.forge.questions.slot import Slot
from perdure.forge.vocabulary import BotPurpose

OWN: dict[BotPurpose, tuple[OwnQuestion, ...]] = {
    BotPurpose.CODING: work.CODING,
    BotPurpose.WRITING: work.WRITING,
    BotPurpose.RESEARCH: work.RESEARCH,
    BotPurpose.DATA: work.DATA,
    BotPurpose.STUDY: life.STUDY,
    BotPurpose.CUSTOMER_SERVICE: work.CUSTOMER_SERVICE,
    BotPurpose.PERSONAL_ASSISTANT: life.PERSONAL_ASSISTANT,
    BotPurpose.HOUSEHOLD: life.HOUSEHOLD,
    BotPurpose.TRAVEL: life.TRAVEL,
    BotPurpose.HEALTH: life.HEALTH,
    BotPurpose.ON_CALL: work.ON_CALL,
    BotPurpose.GAMES: life.GAMES,
    BotPurpose.OTHER: life.OTHER,
}
OWN_SLOTS: dict[BotPurpose, tuple[Slot, ...]] = {
    purpose: tuple(own_slot(purpose, question) for question in questions) for purpose, questions in OWN.items()
}


def sentences(purpose: BotPurpose, answers: dict[str, str], about: str) -> dict[str, str]:
    """Return what was answered about the bot, or about the person, by the name of the question, as it was asked."""
    names = [question.name for question in OWN[purpose] if question.about == about]
    return {name: answers[name] for name in names if name in answers}
