"""Plans an interview: which questions it has, with which options and suggestions.

An interview has a minimum and a maximum number of questions, by the category of the bot. Questions whose answer the
description has are left out. First come the questions of every bot; then those of the category, if there is room beside
two questions of the purpose; then questions of the purpose up to the maximum. If the minimum is not reached, spare
questions fill it. All are asked in the order of SLOTS.
"""

from collections.abc import Sequence
from typing import Any

from perdure.forge.categories import DEFAULTS, guess_purpose
from perdure.forge.config import PartialConfig
from perdure.forge.interview.finish import complete_config, preview
from perdure.forge.questions import ALWAYS_ASKED, ASKED_IF_FEW, ASKED_IF_ROOM, CHANGEABLE, SLOTS
from perdure.forge.questions.basics import PURPOSE
from perdure.forge.questions.change_request import requested_fields
from perdure.forge.questions.changing import CHANGES, wanted_slots
from perdure.forge.questions.names import proposed_names
from perdure.forge.questions.purposes import PURPOSE_SLOTS
from perdure.forge.questions.slot import Slot, option
from perdure.forge.state import KEEP, REQUESTED, BuilderState
from perdure.forge.turns import AskQuestion, Option, Suggestion
from perdure.forge.vocabulary import BotPurpose, PurposeCategory

_MIN_PURPOSE_QUESTIONS = 2
"""The minimum number of questions of the purpose, whatever the number of others is."""


def is_asked_in(state: BuilderState, slot: Slot) -> bool:
    """Return whether this interview can ask about a slot.

    In a reconfiguration only the changes, and the questions of a new purpose, are read from the description.
    """
    if state.target is not None:
        return slot is CHANGES or (state.is_repurposed and slot in PURPOSE_SLOTS[state.purpose])
    return slot is not CHANGES and ("." not in slot.name or slot in PURPOSE_SLOTS[state.purpose])


def questions(state: BuilderState) -> Sequence[Slot]:
    """Return the questions of this interview in order, as far as they are known now; by the rules of the module."""
    if state.target is not None:
        return _questions_about_changes(state)
    defaults = DEFAULTS[state.kind]
    purpose_slots = [slot for slot in PURPOSE_SLOTS[state.purpose] if not _is_unneeded(state, slot)]
    asked = [slot for slot in ALWAYS_ASKED if not _is_unneeded(state, slot)]
    optional = [slot for slot in ASKED_IF_ROOM.get(state.kind, ()) if not _is_unneeded(state, slot)]
    if len(asked) + len(optional) + min(len(purpose_slots), _MIN_PURPOSE_QUESTIONS) <= defaults.max_questions:
        asked += optional
    asked += purpose_slots[: max(_MIN_PURPOSE_QUESTIONS, defaults.max_questions - len(asked))]
    spare = [slot for slot in ASKED_IF_FEW if slot not in asked and slot.name not in state.stated]
    asked += spare[: max(0, defaults.min_questions - len(asked))]
    return [slot for slot in SLOTS if slot in asked]


def _questions_about_changes(state: BuilderState) -> Sequence[Slot]:
    """Return the questions of a reconfiguration: what changes, and then those of the chosen parts."""
    changed = wanted_slots(state.config.changes or ())
    purpose_slots: Sequence[Slot] = PURPOSE_SLOTS[state.purpose] if "focus" in changed or state.is_repurposed else ()
    if state.is_repurposed:  # the new description answers some questions, and the old name may not fit any more
        purpose_slots = [
            slot for slot in purpose_slots if state.answer_to(slot.name) is not None or not slot.from_description(state)
        ]
        changed |= {"name"}
    is_described = state.answer_to(CHANGES.name) is None and bool(CHANGES.from_description(state))
    first = () if is_described else (CHANGES,)
    chosen = [slot for slot in CHANGEABLE if slot.name in changed]
    return [slot for slot in SLOTS if slot in (*first, *chosen, *purpose_slots)]


def _is_unneeded(state: BuilderState, slot: Slot) -> bool:
    """Return whether a question is not needed: the description answers it, or a default is enough for a small bot."""
    if state.answer_to(slot.name) is not None:
        return False  # it was asked, so it counts as a question
    if slot.name in state.stated:
        return True
    is_own = "." in slot.name
    if is_own and state.config.focus is not None:
        return True  # an earlier version asked it
    is_small = state.kind is PurposeCategory.SIMPLE_UTILITY and guess_purpose(state.description).is_too_short
    has_default = is_small and (is_own or slot.name == "tone")
    has_category = slot is PURPOSE and state.answer_to("category") is not None
    return has_default or has_category or bool(slot.from_description(state))


def question_turn(state: BuilderState, slot: Slot) -> AskQuestion:
    """Return the turn that asks a question; in a reconfiguration, its options include the present value."""
    question = slot.ask(state)
    options, suggestion = list(question.options), question.suggestion
    if state.target is not None and slot is not CHANGES and (present_value := _present_value(state, slot)) is not None:
        current = present_fields(state)
        options = [each for each in options if not _is_current(slot.choose(state, each.id), current)]
        options.insert(0, option(KEEP, f"Keep {present_value}", "as it is now"))
        keep = Suggestion(option_id=KEEP, reason="nothing changes unless you say so")
        suggestion = _suggest_purpose_or_name(state, slot, options) or keep
        if requested := requested_changes(state, slot):
            options = [
                each for each in options if each.id == KEEP or not _is_current(slot.choose(state, each.id), requested)
            ]
            options.insert(0, _requested_option(state, slot, requested))
            suggestion = Suggestion(option_id=REQUESTED, reason="you asked for it")
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


def _suggest_purpose_or_name(state: BuilderState, slot: Slot, options: Sequence[Option]) -> Suggestion | None:
    """Suggest a purpose or a name that fits a new description; a name that the person chose is not replaced."""
    present = present_fields(state)
    if slot.name == "purpose" and state.config.description is not None:
        guess = guess_purpose(state.about)
        if not guess.is_clear or guess.purpose == present["purpose"]:
            return None
        return Suggestion(option_id=str(guess.purpose), reason="your new description sounds like it")
    if slot.name != "name" or not state.is_repurposed or len(options) < 2:
        return None
    proposed = [name for name, _ in proposed_names(present["description"], present["purpose"])]
    if present["name"] not in proposed:
        return None
    return Suggestion(option_id=options[1].id, reason="fits the new purpose")


def requested_changes(state: BuilderState, slot: Slot) -> dict[str, Any]:
    """Return the fields of a question that a change request names, unless the bot has those values already."""
    requested = requested_fields(state.request)
    fields = {name: requested[name] for name in slot.fields if name in requested}
    current = present_fields(state)
    if "boundaries" in fields:
        fields["boundaries"] = tuple(dict.fromkeys([*current["boundaries"], *fields["boundaries"]]))
    return {} if all(current[name] == value for name, value in fields.items()) else fields


def _requested_option(state: BuilderState, slot: Slot, requested: dict[str, Any]) -> Option:
    [value] = requested.values()
    if slot.name != "boundaries":
        return option(REQUESTED, value.capitalize() if slot.name == "tone" else value, "as you said")
    present = present_fields(state)["boundaries"]
    new = " ".join(each for each in value if each not in present)
    return option(REQUESTED, new, "added to the rules that it has" if present else "as you said")


def _is_current(fields: dict[str, Any], current: dict[str, Any]) -> bool:
    """Return whether an option sets the present values."""
    answers = fields.get("answers")
    if answers is not None:
        return all(current["answers"].get(name) == text for name, text in answers.items())
    return all(current[name] == value for name, value in fields.items())


def present_fields(state: BuilderState) -> dict[str, Any]:
    """Return the present fields of the bot of a reconfiguration."""
    config = complete_config(state.model_copy(update={"config": PartialConfig()}))
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


def _present_value(state: BuilderState, slot: Slot) -> str | None:
    """Return the present value of a slot as an option shows it; None if there is nothing to keep."""
    present = present_fields(state)
    if "." in slot.name:
        return None if state.is_repurposed else present["answers"].get(slot.name.partition(".")[2])
    value = present[slot.fields[0]]
    match value, slot.name:
        case tuple(), "skills":
            return ", ".join(skill.name for skill in value) or "it without skills"
        case tuple(), _ if len(value) > 1:
            return f"the present {len(value)}"
        case tuple(), _:
            return str(value[0]) if value else "it without any"
        case BotPurpose(), _:
            return value.title_for(str(present["category"]))
        case _:
            return str(value)
