"""The source of each value of a config: an answer, an accepted suggestion, the description, or a default."""

from collections.abc import Iterator

from perdure.bots.provenance import Source
from perdure.forge.assembly.texts import DEFAULT, Sources, quoted_lines
from perdure.forge.config import BuilderConfig
from perdure.forge.interview.finish import complete_config, purpose_parts
from perdure.forge.questions import SLOTS
from perdure.forge.questions.purposes import PURPOSE_SLOTS, sentences
from perdure.forge.questions.slot import Slot
from perdure.forge.second_person import facts_about_user
from perdure.forge.state import KEEP, BuilderState

CONFIRMED_EDIT = Source("answer")
"""The person edited the value when they confirmed the config."""


def sources_of(state: BuilderState, config: BuilderConfig, *, earlier: int = 0) -> Sources:
    """Return the source of each value; `earlier` is the number of exchanges before this conversation."""
    slots = {slot.name: _source(state, slot, earlier) for slot in SLOTS if _is_relevant(state, slot)}
    if state.is_repurposed and (wish := slots["wish"]) != DEFAULT:
        open_slots = [slot for slot in PURPOSE_SLOTS[state.purpose] if state.answer_to(slot.name) is None]
        slots |= {slot.name: wish for slot in open_slots if slot.from_description(state)}
    fields = {name: slots[slot.name] for slot in SLOTS if slot.name in slots for name in slot.fields}
    fields |= dict.fromkeys(_changed_fields(complete_config(state), config), CONFIRMED_EDIT)
    slots["description"] = slots["wish"] if state.config.description else Source("description")
    return Sources(
        fields={**fields, "purpose": CONFIRMED_EDIT},
        purpose={
            line: slots.get(slot, DEFAULT)
            for slot, text in purpose_parts(state).items()
            for line in text.split("\n")
            if line
        },
        user=_user_sources(state, config, slots),
    )


def _is_relevant(state: BuilderState, slot: Slot) -> bool:
    """Return whether a slot belongs to every purpose or to the one of the state."""
    purpose, dot, _ = slot.name.partition(".")
    return not dot or purpose == state.purpose


def _user_sources(state: BuilderState, config: BuilderConfig, slots: dict[str, Source]) -> dict[str, Source]:
    """Return the sources of the lines of USER.md."""
    is_edited = config.description != state.about
    source = CONFIRMED_EDIT if is_edited else slots["description"]
    lines = dict.fromkeys(
        [*quoted_lines(config.description), *(f"- {fact}" for fact in facts_about_user(config.description))], source
    )
    for name, text in sentences(config.purpose, config.answers, "user").items():
        is_unchanged = state.config.answers.get(name) == text
        lines[f"- {text}"] = slots.get(f"{config.purpose}.{name}", DEFAULT) if is_unchanged else CONFIRMED_EDIT
    return lines


def _source(state: BuilderState, slot: Slot, earlier: int) -> Source:
    number = next((at for at, each in enumerate(state.conversation) if each.slot == slot.name), None)
    if number is None:
        is_stated = slot.name in state.stated or (state.target is None and bool(slot.from_description(state)))
        return Source("description") if is_stated else DEFAULT
    option_id = state.conversation[number].option_id
    if option_id == KEEP:
        return DEFAULT
    suggestion = slot.ask(state).suggestion
    is_suggested = option_id is not None and suggestion is not None and suggestion.option_id == option_id
    return Source("suggestion" if is_suggested else "answer", number + earlier)


def _changed_fields(proposed: BuilderConfig, config: BuilderConfig) -> Iterator[str]:
    for name in ("name", "category", "skills"):
        if getattr(proposed, name) != getattr(config, name):
            yield name
    for name in ("tone", "traits", "boundaries"):
        if getattr(proposed.personality, name) != getattr(config.personality, name):
            yield name
    for name in ("model", "temperature", "max_tokens"):
        if getattr(proposed.model_settings, name) != getattr(config.model_settings, name):
            yield name
