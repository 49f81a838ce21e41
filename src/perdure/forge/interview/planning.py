"""What is asked next: which questions an interview has, and how each is put."""

from collections.abc import Sequence
from typing import Any

from perdure.forge.categories import DEFAULTS, purpose_of
from perdure.forge.config import PartialConfig
from perdure.forge.interview.finish import complete, preview
from perdure.forge.questions import ALSO, ALWAYS, CHANGEABLE, SLOTS, SPARE
from perdure.forge.questions.basics import PURPOSE
from perdure.forge.questions.changing import CHANGES, wanted_slots
from perdure.forge.questions.names import proposed_names
from perdure.forge.questions.purposes import OWN_SLOTS
from perdure.forge.questions.slot import Slot, option
from perdure.forge.questions.wishes import wished_fields
from perdure.forge.state import KEEP, WISHED, BuilderState
from perdure.forge.turns import AskQuestion, Option, Suggestion
from perdure.forge.vocabulary import BotPurpose, PurposeCategory

_FEWEST_OWN = 2
"""The number of questions of its own that every purpose has."""


def is_of(state: BuilderState, slot: Slot) -> bool:
    """Tell whether a slot is one of this interview: of an existing bot nothing is guessed but what is to change."""
    if state.target is not None:
        return slot is CHANGES or (state.is_repurposed and slot in OWN_SLOTS[state.purpose])
    return slot is not CHANGES and ("." not in slot.name or slot in OWN_SLOTS[state.purpose])


def questions(state: BuilderState) -> Sequence[Slot]:
    """Return all that is asked in this interview, as far as it can be known now, in order."""
    if state.target is not None:
        return _questions_about_changes(state)
    usual = DEFAULTS[state.kind]
    own = [slot for slot in OWN_SLOTS[state.purpose] if not _is_known(state, slot)]
    wanted = [slot for slot in ALWAYS if not _is_known(state, slot)]
    also = [slot for slot in ALSO.get(state.kind, ()) if not _is_known(state, slot)]
    if len(wanted) + len(also) + min(len(own), _FEWEST_OWN) <= usual.most:
        wanted += also
    wanted += own[: max(_FEWEST_OWN, usual.most - len(wanted))]
    spare = [slot for slot in SPARE if slot not in wanted]
    wanted += spare[: max(0, usual.fewest - len(wanted))]
    return [slot for slot in SLOTS if slot in wanted]


def _questions_about_changes(state: BuilderState) -> Sequence[Slot]:
    """Return what is asked about an existing bot: what is to change, and then that alone."""
    wanted = wanted_slots(state.config.changes or ())
    own: Sequence[Slot] = OWN_SLOTS[state.purpose] if "focus" in wanted or state.is_repurposed else ()
    if state.is_repurposed:  # what the new description says is known, and the old name may not fit any more
        own = [slot for slot in own if state.answer_to(slot.name) is not None or not slot.told(state)]
        wanted |= {"name"}
    is_told = state.answer_to(CHANGES.name) is None and bool(CHANGES.told(state))
    first = () if is_told else (CHANGES,)
    chosen = [slot for slot in CHANGEABLE if slot.name in wanted]
    return [slot for slot in SLOTS if slot in (*first, *chosen, *own)]


def _is_known(state: BuilderState, slot: Slot) -> bool:
    """Tell whether a question is needless: the description has the answer, or a small bot does well with the usual."""
    if state.answer_to(slot.name) is not None:
        return False  # it was asked, and so it counts
    is_own = "." in slot.name
    if is_own and state.config.focus is not None:
        return True  # an earlier version has asked
    is_small = state.kind is PurposeCategory.SIMPLE_UTILITY and purpose_of(state.description).is_vague
    is_left_out = is_small and (is_own or slot.name == "tone")
    return bool(slot.told(state)) or is_left_out or (slot is PURPOSE and state.answer_to("category") is not None)


def question_turn(state: BuilderState, slot: Slot) -> AskQuestion:
    """Put a question, with the bot so far; of an existing bot, everything can be kept."""
    question = slot.ask(state)
    options, suggestion = list(question.options), question.suggestion
    if state.target is not None and slot is not CHANGES and (known := _shown(state, slot)) is not None:
        current = known_fields(state)
        options = [each for each in options if not _is_current(slot.choose(state, each.id), current)]
        options.insert(0, option(KEEP, f"Keep {known}", "as it is now"))
        suggestion = _fitting(state, slot, options) or Suggestion(
            option_id=KEEP, reason="nothing changes unless you say so"
        )
        if wished := wished_for(state, slot):
            options = [
                each for each in options if each.id == KEEP or not _is_current(slot.choose(state, each.id), wished)
            ]
            options.insert(0, _wished_option(state, slot, wished))
            suggestion = Suggestion(option_id=WISHED, reason="you asked for it")
    return AskQuestion(
        phase=slot.phase,
        question=question.text,
        options=tuple(options),
        phase_label=slot.phase.label,
        suggestion=suggestion,
        multiple=question.multiple,
        help=slot.help,
        preview=preview(state),
    )


def _fitting(state: BuilderState, slot: Slot, options: Sequence[Option]) -> Suggestion | None:
    """Suggest a purpose and a name that fit a new description, unless the person gave the bot its name."""
    known = known_fields(state)
    if slot.name == "purpose" and state.config.description is not None:
        found = purpose_of(state.about)
        is_other = found.is_clear and found.purpose != known["purpose"]
        return (
            Suggestion(option_id=str(found.purpose), reason="your new description sounds like it") if is_other else None
        )
    if slot.name != "name" or not state.is_repurposed or len(options) < 2:
        return None
    proposed = [name for name, _ in proposed_names(known["description"], known["purpose"])]
    return Suggestion(option_id=options[1].id, reason="fits what it is for now") if known["name"] in proposed else None


def wished_for(state: BuilderState, slot: Slot) -> dict[str, Any]:
    """Return what the request to change a bot names for a question, unless it is so already."""
    named = wished_fields(state.initial_description) if state.has_request else {}
    found = {name: named[name] for name in slot.fields if name in named}
    current = known_fields(state)
    if "boundaries" in found:
        found["boundaries"] = tuple(dict.fromkeys([*current["boundaries"], *found["boundaries"]]))
    return {} if all(current[name] == value for name, value in found.items()) else found


def _wished_option(state: BuilderState, slot: Slot, wished: dict[str, Any]) -> Option:
    [value] = wished.values()
    if slot.name != "boundaries":
        return option(WISHED, value.capitalize() if slot.name == "tone" else value, "as you said")
    present = known_fields(state)["boundaries"]
    new = " ".join(each for each in value if each not in present)
    return option(WISHED, new, "added to the rules that it has" if present else "as you said")


def _is_current(fields: dict[str, Any], current: dict[str, Any]) -> bool:
    """Tell whether an option says what is so already."""
    answers = fields.get("answers")
    if answers is not None:
        return all(current["answers"].get(name) == text for name, text in answers.items())
    return all(current[name] == value for name, value in fields.items())


def known_fields(state: BuilderState) -> dict[str, Any]:
    """Return what the bot of a reconfiguration is, field by field."""
    config = complete(state.model_copy(update={"config": PartialConfig()}))
    return {
        "name": config.name,
        "description": config.description,
        "purpose": config.purpose,
        "category": config.category,
        "answers": config.answers,
        "tone": config.personality.tone,
        "boundaries": config.personality.boundaries,
        "model": config.model_settings.model,
        "temperature": config.model_settings.temperature,
        "max_tokens": config.model_settings.max_tokens,
        "skills": config.skills,
    }


def _shown(state: BuilderState, slot: Slot) -> str | None:
    """Return what a bot has now, as an option shows it; None when there is nothing to keep."""
    known = known_fields(state)
    if "." in slot.name:
        return None if state.is_repurposed else known["answers"].get(slot.name.partition(".")[2])
    value = known[slot.fields[0]]
    match value, slot.name:
        case tuple(), "skills":
            return ", ".join(skill.name for skill in value) or "it without skills"
        case tuple(), _:
            return f"the {len(value)} that it has" if len(value) > 1 else value[0] if value else "it without any"
        case BotPurpose(), _:
            return value.title_for(str(known["category"]))
        case _:
            return str(value)
