"""Where the values of a config came from: an answer, a suggestion that was taken, the description, or what is usual."""

from collections.abc import Iterator

from perdure.bots.provenance import Source
from perdure.forge.config import BuilderConfig
from perdure.forge.finish import complete, purpose_parts
from perdure.forge.questions import SLOTS
from perdure.forge.questions.slot import Slot
from perdure.forge.state import KEEP, BuilderState
from perdure.forge.texts import DEFAULT, Sources

AT_THE_END = Source("answer")
"""Changed when the whole config was confirmed, in answer to no question."""


def sources_of(state: BuilderState, config: BuilderConfig, *, earlier: int = 0) -> Sources:
    """Find out where each value came from; `earlier` exchanges were before this conversation."""
    slots = {slot.name: _source(state, slot, earlier) for slot in SLOTS}
    fields = {name: slots[slot.name] for slot in SLOTS for name in slot.fields}
    fields |= dict.fromkeys(_changed_fields(complete(state), config), AT_THE_END)
    slots["description"] = Source("description")
    parts = purpose_parts(state).items() if state.target is None else ()
    return Sources(
        fields={"purpose": AT_THE_END, **fields},
        purpose={line: slots[slot] for slot, text in parts for line in text.split("\n") if line},
    )


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
