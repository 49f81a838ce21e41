"""What the built-in interviewer asks: one module for each phase, and the order for each purpose."""

from perdure.forge.questions.basics import EARLIER, NAME, PURPOSE
from perdure.forge.questions.changing import CHANGES, WISH
from perdure.forge.questions.model import LENGTH, MODEL, VARIETY
from perdure.forge.questions.personality import BOUNDARIES, TONE
from perdure.forge.questions.purposes import OWN_SLOTS
from perdure.forge.questions.skills import SKILLS
from perdure.forge.questions.slot import Slot
from perdure.forge.vocabulary import PurposeCategory

SLOTS: tuple[Slot, ...] = (
    *(CHANGES, WISH, PURPOSE, NAME),
    *(slot for slots in OWN_SLOTS.values() for slot in slots),
    *EARLIER,
    *(TONE, BOUNDARIES),
    *(MODEL, VARIETY, LENGTH),
    SKILLS,
)
"""All of them, in the order in which they are asked."""

ALWAYS = (PURPOSE, NAME, TONE, MODEL, SKILLS)
"""What every new bot is asked, unless its description says it."""
ALSO: dict[PurposeCategory, tuple[Slot, ...]] = {
    PurposeCategory.COMPLEX_ANALYST: (BOUNDARIES,),
    PurposeCategory.CODING: (BOUNDARIES,),
    PurposeCategory.RESEARCH: (BOUNDARIES,),
    PurposeCategory.CUSTOMER_SERVICE: (BOUNDARIES,),
}
"""What is asked as well where there is room beside two questions of the purpose."""
SPARE: tuple[Slot, ...] = (BOUNDARIES, LENGTH, VARIETY)
"""Asked where so much was said that too few questions are left to know a bot well."""
CHANGEABLE: tuple[Slot, ...] = (WISH, PURPOSE, NAME, TONE, BOUNDARIES, MODEL, VARIETY, LENGTH, SKILLS)
"""What can be changed of an existing bot, beside the questions of its purpose."""
