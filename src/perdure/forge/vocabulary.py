"""The vocabulary of Forge: modes and phases of a session, categories and purposes of a bot."""

from enum import StrEnum
from typing import Literal

EngineName = Literal["builtin", "model"]
WITHOUT_MODEL = "The engine `builtin` asks without a model."
"""Ends the error of a model that leads an interview and does not answer."""
"""What leads an interview: the built-in interviewer, or a model."""


class BuilderMode(StrEnum):
    """What a session builds."""

    BOT = "bot"
    RECONFIGURE = "reconfigure"
    SKILL = "skill"
    BATCH = "batch"


class BuilderPhase(StrEnum):
    """The phase of the interview."""

    BASICS = "basics"
    PERSONALITY = "personality"
    MODEL = "model"
    SKILLS = "skills"
    REVIEW = "review"

    @property
    def label(self) -> str:
        """The label of the phase for people."""
        return f"{self.value.capitalize()} ({_PHASES.index(self) + 1} of {len(_PHASES)})"

    @property
    def following(self) -> "BuilderPhase":
        """The next phase; of the last one, itself."""
        return _PHASES[min(_PHASES.index(self) + 1, len(_PHASES) - 1)]

    def is_before(self, other: "BuilderPhase") -> bool:
        return _PHASES.index(self) < _PHASES.index(other)


_PHASES = tuple(BuilderPhase)


class PurposeCategory(StrEnum):
    """The category of a bot, which has its defaults; any other text of at most 50 characters is a custom category."""

    SIMPLE_UTILITY = "simple_utility"
    COMPLEX_ANALYST = "complex_analyst"
    CREATIVE = "creative"
    CODING = "coding"
    RESEARCH = "research"
    CUSTOMER_SERVICE = "customer_service"
    CUSTOM = "custom"

    @classmethod
    def of(cls, text: str) -> "PurposeCategory":
        """Return the category that a text names; any other text is CUSTOM."""
        return _CATEGORIES.get(text, cls.CUSTOM)

    @classmethod
    def title_of(cls, category: str) -> str:
        """Return the title of a category; a custom one is its own title."""
        return _TITLES.get(category, category)


_TITLES: dict[str, str] = {
    PurposeCategory.SIMPLE_UTILITY: "simple utility",
    PurposeCategory.COMPLEX_ANALYST: "analyst",
    PurposeCategory.CUSTOMER_SERVICE: "customer service",
    PurposeCategory.CUSTOM: "something else",
}
_CATEGORIES = {str(category): category for category in PurposeCategory}


class BotPurpose(StrEnum):
    """The purpose of a bot, which determines its questions; each purpose belongs to one category."""

    CODING = "coding"
    WRITING = "writing"
    RESEARCH = "research"
    DATA = "data"
    STUDY = "study"
    CUSTOMER_SERVICE = "customer_service"
    PERSONAL_ASSISTANT = "personal_assistant"
    HOUSEHOLD = "household"
    TRAVEL = "travel"
    HEALTH = "health"
    ON_CALL = "on_call"
    GAMES = "games"
    OTHER = "other"

    @property
    def category(self) -> PurposeCategory:
        """The category whose defaults apply."""
        return _CATEGORY_OF[self]

    @property
    def phrase(self) -> str:
        """The purpose as part of a sentence: "a bot for …"."""
        return _PHRASES[self]

    def title_for(self, category: str) -> str:
        """Return the title of the purpose; that of a custom purpose is its category."""
        return self.phrase or PurposeCategory.title_of(category)

    @classmethod
    def of_category(cls, category: str) -> "BotPurpose":
        """Return the purpose for a config of an earlier version, which has a category only."""
        return _PURPOSE_OF.get(category, cls.OTHER)


_CATEGORY_OF: dict[BotPurpose, PurposeCategory] = {
    BotPurpose.CODING: PurposeCategory.CODING,
    BotPurpose.WRITING: PurposeCategory.CREATIVE,
    BotPurpose.RESEARCH: PurposeCategory.RESEARCH,
    BotPurpose.DATA: PurposeCategory.COMPLEX_ANALYST,
    BotPurpose.STUDY: PurposeCategory.CUSTOM,
    BotPurpose.CUSTOMER_SERVICE: PurposeCategory.CUSTOMER_SERVICE,
    BotPurpose.PERSONAL_ASSISTANT: PurposeCategory.SIMPLE_UTILITY,
    BotPurpose.HOUSEHOLD: PurposeCategory.SIMPLE_UTILITY,
    BotPurpose.TRAVEL: PurposeCategory.SIMPLE_UTILITY,
    BotPurpose.HEALTH: PurposeCategory.CUSTOM,
    BotPurpose.ON_CALL: PurposeCategory.COMPLEX_ANALYST,
    BotPurpose.GAMES: PurposeCategory.CREATIVE,
    BotPurpose.OTHER: PurposeCategory.CUSTOM,
}
_PHRASES: dict[BotPurpose, str] = {
    BotPurpose.CODING: "coding",
    BotPurpose.WRITING: "writing",
    BotPurpose.RESEARCH: "research",
    BotPurpose.DATA: "data analysis",
    BotPurpose.STUDY: "studying",
    BotPurpose.CUSTOMER_SERVICE: "customer service",
    BotPurpose.PERSONAL_ASSISTANT: "everyday tasks",
    BotPurpose.HOUSEHOLD: "family and household",
    BotPurpose.TRAVEL: "travel",
    BotPurpose.HEALTH: "health habits",
    BotPurpose.ON_CALL: "on-call work",
    BotPurpose.GAMES: "games",
    BotPurpose.OTHER: "",
}
_PURPOSE_OF: dict[str, BotPurpose] = {
    PurposeCategory.SIMPLE_UTILITY: BotPurpose.PERSONAL_ASSISTANT,
    PurposeCategory.COMPLEX_ANALYST: BotPurpose.DATA,
    PurposeCategory.CREATIVE: BotPurpose.WRITING,
    PurposeCategory.CODING: BotPurpose.CODING,
    PurposeCategory.RESEARCH: BotPurpose.RESEARCH,
    PurposeCategory.CUSTOMER_SERVICE: BotPurpose.CUSTOMER_SERVICE,
}
