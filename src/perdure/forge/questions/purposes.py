"""The questions of each purpose."""

from perdure.forge.questions import life, work
from perdure.forge.questions.purpose_question import PurposeQuestion, purpose_slot
from perdure.forge.questions.slot import Slot
from perdure.forge.vocabulary import BotPurpose

PURPOSE_QUESTIONS: dict[BotPurpose, tuple[PurposeQuestion, ...]] = {
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
PURPOSE_SLOTS: dict[BotPurpose, tuple[Slot, ...]] = {
    purpose: tuple(purpose_slot(purpose, question) for question in questions)
    for purpose, questions in PURPOSE_QUESTIONS.items()
}


def sentences(purpose: BotPurpose, answers: dict[str, str], about: str) -> dict[str, str]:
    """Return the answers about the bot or about the user, by the name of the question, in the order of questions."""
    names = [question.name for question in PURPOSE_QUESTIONS[purpose] if question.about == about]
    return {name: answers[name] for name in names if name in answers}
