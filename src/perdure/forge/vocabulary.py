"""The one vocabulary of Forge: the modes of a session, the phases it goes through, and what a bot may be for."""

from enum import StrEnum


class BuilderMode(StrEnum):
    """What a session builds."""

    BOT = "bot"
    RECONFIGURE = "reconfigure"
    SKILL = "skill"
    BATCH = "batch"


class BuilderPhase(StrEnum):
    """Which part of the interview a session is in."""

    BASICS = "basics"
    PERSONALITY = "personality"
    MODEL = "model"
    SKILLS = "skills"
    REVIEW = "review"

    @property
    def label(self) -> str:
        """How a person is told where they are."""
        return f"{self.value.capitalize()} ({_PHASES.index(self) + 1} of {len(_PHASES)})"

    @property
    def following(self) -> "BuilderPhase":
        """The phase after this one; the last is followed by itself."""
        return _PHASES[min(_PHASES.index(self) + 1, len(_PHASES) - 1)]

    def is_before(self, other: "BuilderPhase") -> bool:
        return _PHASES.index(self) < _PHASES.index(other)


_PHASES = tuple(BuilderPhase)


class PurposeCategory(StrEnum):
    """What a bot is for; any other text of at most 50 characters is a custom category."""

    SIMPLE_UTILITY = "simple_utility"
    COMPLEX_ANALYST = "complex_analyst"
    CREATIVE = "creative"
    CODING = "coding"
    RESEARCH = "research"
    CUSTOMER_SERVICE = "customer_service"
    CUSTOM = "custom"

    @classmethod
    def of(cls, text: str) -> "PurposeCategory":
        """Return the category that a text names; one that is not ours is custom."""
        return _CATEGORIES.get(text, cls.CUSTOM)


_CATEGORIES = {str(category): category for category in PurposeCategory}
