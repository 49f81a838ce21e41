"""The questions of the built-in interview: one module for each phase, and the order of all slots."""

from perdure.forge.questions.basics import NAME, PURPOSE, RETIRED
from perdure.forge.questions.changing import CHANGES, WISH
from perdure.forge.questions.model import LENGTH, MODEL, VARIETY
from perdure.forge.questions.personality import BOUNDARIES, TONE
from perdure.forge.questions.purposes import PURPOSE_SLOTS
from perdure.forge.questions.skills import SKILLS
from perdure.forge.questions.slot import Slot
from perdure.forge.vocabulary import PurposeCategory

SLOTS: tuple[Slot, ...] = (
    *(CHANGES, WISH, PURPOSE, NAME),
    *(slot for slots in PURPOSE_SLOTS.values() for slot in slots),
    *RETIRED,
    *(TONE, BOUNDARIES),
    *(MODEL, VARIETY, LENGTH),
    SKILLS,
)
"""All slots, in the order in which they are asked."""

ALWAYS_ASKED = (PURPOSE, NAME, TONE, MODEL, SKILLS)
"""Slots that are asked for every new bot, unless its description answers them."""
ASKED_IF_ROOM: dict[PurposeCategory, tuple[Slot, ...]] = {
    PurposeCategory.COMPLEX_ANALYST: (BOUNDARIES,),
    PurposeCategory.CODING: (BOUNDARIES,),
    PurposeCategory.RESEARCH: (BOUNDARIES,),
    PurposeCategory.CUSTOMER_SERVICE: (BOUNDARIES,),
}
"""Slots of a category that are asked if there is room beside two questions of the purpose."""
ASKED_IF_FEW: tuple[Slot, ...] = (BOUNDARIES, LENGTH, VARIETY)
"""Slots that fill the minimum number of questions when the description answers most others."""
CHANGEABLE: tuple[Slot, ...] = (WISH, PURPOSE, NAME, TONE, BOUNDARIES, MODEL, VARIETY, LENGTH, SKILLS)
"""Slots that a reconfiguration can ask, besides the questions of the purpose."""
