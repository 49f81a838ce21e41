"""Where the values of a config came from: an answer, a suggestion that was taken, the description, or what is usual."""

from collections.abc import Iterator

from perdure.bots.provenance import Source
from perdure.forge.assembly.texts import DEFAULT, Sources, quoted_lines
from perdure.forge.config import BuilderConfig
from perdure.forge.interview.finish import complete, purpose_parts
from perdure.forge.questions import SLOTS
from perdure.forge.questions.purposes import OWN_SLOTS, sentences
from perdure.forge.questions.slot import Slot
from perdure.forge.second_person import facts
from perdure.forge.state import KEEP, BuilderState

AT_THE_END = Source("answer")
"""Changed when the whole config was confirmed, in answer to no question."""


def sources_of(state: BuilderState, config: BuilderConfig, *, earlier: int = 0) -> Sources:
    """Find out where each value came from; `earlier` exchanges were before this conversation."""
    slots = {slot.name: _source(state, slot, earlier) for slot in SLOTS if _is_asked(state, slot)}
    if state.is_repurposed and (wish := slots["wish"]) != DEFAULT:
        told = (slot for slot in OWN_SLOTS[state.purpose] if state.answer_to(slot.name) is None and slot.told(state))
        slots |= {slot.name: wish for slot in told}
    fields = {name: slots[slot.name] for slot in SLOTS if slot.name in slots for name in slot.fields}
    fields |= dict.fromkeys(_changed_fields(complete(state), config), AT_THE_END)
    slots["description"] = slots["wish"] if state.config.description else Source("description")
    return Sources(
        fields={**fields, "purpose": AT_THE_END},
        purpose={
            line: slots.get(slot, DEFAULT)
            for slot, text in purpose_parts(state).items()
            for line in text.split("\n")
            if line
        },
        user=_user_sources(state, config, slots),
    )


def _is_asked(state: BuilderState, slot: Slot) -> bool:
    """Leave out the questions of other purposes."""
    purpose, dot, _ = slot.name.partition(".")
    return not dot or purpose == state.purpose


def _user_sources(state: BuilderState, config: BuilderConfig, slots: dict[str, Source]) -> dict[str, Source]:
    """Find out where the lines of USER.md came from."""
    is_edited = config.description != state.about
    said = AT_THE_END if is_edited else slots["description"]
    lines = dict.fromkeys(
        [*quoted_lines(config.description), *(f"- {fact}" for fact in facts(config.description))], said
    )
    for name, text in sentences(config.purpose, config.answers, "user").items():
        is_said = state.config.answers.get(name) == text
        lines[f"- {text}"] = slots.get(f"{config.purpose}.{name}", DEFAULT) if is_said else AT_THE_END
    return lines


def _source(state: BuilderState, slot: Slot, earlier: int) -> Source:
    number = next((at for at, each in enumerate(state.conversation) if each.slot == slot.name), None)
    if number is None:
        return Source("description") if state.target is None and slot.told(state) else DEFAULT
    chosen = state.conversation[number].option_id
    if chosen == KEEP:
        return DEFAULT
    suggestion = slot.ask(state).suggestion
    is_suggested = chosen is not None and suggestion is not None and suggestion.option_id == chosen
    return Source("suggestion" if is_suggested else "answer", number + earlier)


def _changed_fields(meant: BuilderConfig, config: BuilderConfig) -> Iterator[str]:
    for name in ("name", "category", "skills"):
        if getattr(meant, name) != getattr(config, name):
            yield name
    for name in ("tone", "traits", "boundaries"):
        if getattr(meant.personality, name) != getattr(config.personality, name):
            yield name
    for name in ("model", "temperature", "max_tokens"):
        if getattr(meant.model_settings, name) != getattr(config.model_settings, name):
            yield name
