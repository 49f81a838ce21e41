"""The one vocabulary of Forge: the modes of a session and the phases it goes through."""

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
