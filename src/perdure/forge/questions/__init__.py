"""What the built-in interviewer asks: one module for each phase, and the order for each kind of bot."""

from perdure.forge.questions.basics import AUDIENCE, CATEGORY, FOCUS, NAME, OUTPUT
from perdure.forge.questions.model import LENGTH, MODEL, VARIETY
from perdure.forge.questions.personality import BOUNDARIES, TONE
from perdure.forge.questions.skills import SKILLS
from perdure.forge.questions.slot import Slot
from perdure.forge.vocabulary import PurposeCategory

SLOTS: tuple[Slot, ...] = (
    *(CATEGORY, NAME, FOCUS, AUDIENCE, OUTPUT),
    *(TONE, BOUNDARIES),
    *(MODEL, VARIETY, LENGTH),
    SKILLS,
)
"""All of them, in the order in which they are asked."""

_ALWAYS = (CATEGORY, NAME, TONE, MODEL, SKILLS)
WANTED: dict[PurposeCategory, tuple[Slot, ...]] = {
    PurposeCategory.SIMPLE_UTILITY: _ALWAYS,
    PurposeCategory.COMPLEX_ANALYST: (*_ALWAYS, FOCUS, AUDIENCE, OUTPUT, BOUNDARIES),
    PurposeCategory.CREATIVE: (*_ALWAYS, FOCUS, VARIETY),
    PurposeCategory.CODING: (*_ALWAYS, FOCUS, BOUNDARIES),
    PurposeCategory.RESEARCH: (*_ALWAYS, FOCUS, AUDIENCE, OUTPUT, BOUNDARIES),
    PurposeCategory.CUSTOMER_SERVICE: (*_ALWAYS, FOCUS, BOUNDARIES),
    PurposeCategory.CUSTOM: (*_ALWAYS, FOCUS),
}
"""What is worth a question for a kind of bot, unless the person has said it already."""
SPARE: tuple[Slot, ...] = (BOUNDARIES, LENGTH, VARIETY)
"""Asked where so much was said that too few questions are left to know a bot well."""
RECONFIGURED: tuple[Slot, ...] = (NAME, TONE, BOUNDARIES, MODEL, VARIETY, LENGTH, SKILLS)
"""What can be changed of a bot that is there."""
