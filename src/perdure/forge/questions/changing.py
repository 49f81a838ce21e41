"""Questions of a reconfiguration: what changes, and the new description."""

import re
from collections.abc import Sequence

from perdure.errors import Invalid
from perdure.forge.categories import words_of
from perdure.forge.questions.change_request import is_recognised, parts_of, requested_fields
from perdure.forge.questions.slot import Fields, Question, Slot, option
from perdure.forge.state import BuilderState
from perdure.forge.turns import Option
from perdure.forge.vocabulary import BuilderPhase

_PARTS: tuple[tuple[Option, str], ...] = (
    (option("purpose", "What it is for", "its description and purpose"), "purpose description for"),
    (option("focus", "How it does that", "the answers to the questions of its purpose"), "focus details"),
    (option("name", "Its name", "the folder keeps its name"), "name rename call called"),
    (
        option("tone", "How it speaks", "its tone"),
        "tone friendly friendlier formal playful direct warmer speak speaks voice polite",
    ),
    (option("boundaries", "Its rules", "what it must keep to"), "rule rules boundary boundaries never always"),
    (option("model", "Its model", "which one answers"), "model llm provider"),
    (
        option("settings", "How freely and how long it answers", "temperature and tokens"),
        "temperature tokens longer shorter length",
    ),
    (option("skills", "Its skills", "what it can do beyond talking"), "skill skills"),
)
NOTHING = option("nothing", "Nothing", "keep all of it")
_BY_LABEL = {name: part.id for part, _ in _PARTS for name in (part.id, part.label.casefold())}
_SLOTS: dict[str, tuple[str, ...]] = {
    "purpose": ("wish", "purpose"),
    "settings": ("variety", "length"),
}


def wanted_slots(changes: Sequence[str]) -> set[str]:
    """Return the names of the slots of the chosen parts; `focus` stands for the questions of the purpose."""
    return {slot for change in changes for slot in _SLOTS.get(change, (change,))}


def _changes_from_description(state: BuilderState) -> Fields:
    """Return the parts that the words of a change request name."""
    if not state.has_request:
        return {}
    found = _parts_in(state.initial_description)
    parts = tuple(part.id for part, _ in _PARTS if part.id in found)
    return {"changes": parts} if parts else {}


def _parts_in(request: str) -> set[str]:
    """Return the parts of a bot that the words of a request name."""
    requested = requested_fields(request)
    unrecognised = [part for part in parts_of(request) if not is_recognised(part)]
    words_left = {word for part in unrecognised for word in words_of(part)}
    return {part.id for part, words in _PARTS if part.id in requested or words_left & set(words.split())}


def _read_changes(_state: BuilderState, text: str) -> Fields:
    """Return the parts that a text names: by their labels, or in a request such as "never mention prices"."""
    found: set[str] = set()
    for line in re.split(r"[;\n]", text):
        labels = [each.strip().casefold() for each in line.split(",") if each.strip()]
        is_list = all(each in _BY_LABEL for each in labels)
        named = {_BY_LABEL[each] for each in labels} if is_list else _parts_in(line)
        if labels and not named:
            raise _names_no_part(line)
        found |= named
    if not found:
        raise _names_no_part(text)
    return {"changes": tuple(part.id for part, _ in _PARTS if part.id in found)}


def _names_no_part(text: str) -> Invalid:
    options = ", ".join(f'"{part.label}"' for part, _ in _PARTS)
    return Invalid(f'"{text.strip()[:60]}" names no part of the bot. Choose one of {options}.')


def _several(_state: BuilderState, chosen: Sequence[str]) -> Fields:
    return {"changes": tuple(each for each in chosen if each != NOTHING.id)}


CHANGES = Slot(
    "changes",
    BuilderPhase.BASICS,
    ("changes",),
    ask=lambda _state: Question("What should change?", [*(part for part, _ in _PARTS), NOTHING], multiple=True),
    choose=lambda state, chosen: _several(state, [chosen]),
    choose_several=_several,
    read=_read_changes,
    from_description=_changes_from_description,
    help="Only the parts that you choose are asked about; the rest is unchanged. You confirm the differences first.",
)
WISH = Slot(
    "wish",
    BuilderPhase.BASICS,
    ("description",),
    ask=lambda _state: Question("What should it do from now on? (Other: a sentence or two)", ()),
    choose=lambda _state, _chosen: {},
    read=lambda _state, text: {"description": text},
    help="Say it as you would to a new colleague. It replaces the old description in SOUL.md and USER.md.",
)
