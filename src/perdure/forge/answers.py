"""The answers that a person can give: an option, free text, a confirmation, or a step back."""

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from perdure.errors import Invalid
from perdure.forge.config import LONGEST_TEXT
from perdure.forge.vocabulary import BuilderPhase
from perdure.text.storable import require_storable


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class OptionIndex(_Answer):
    """One option, by its index from 0."""

    option_index: int


class OptionIndexes(_Answer):
    """Several options, by their indexes from 0, if the question allows it."""

    option_indexes: list[int]


class FreeText(_Answer):
    """An answer in the person's own words."""

    free_text: str


class Confirm(_Answer):
    """Yes or no to the turn that asks for confirmation."""

    confirm: bool


class Back(_Answer):
    """A step back to an earlier phase; None is the previous one."""

    model_config = ConfigDict(json_schema_extra={"required": ["back"]})  # `{}` is not an answer
    back: BuilderPhase | None = None


BuilderAnswer = OptionIndex | OptionIndexes | FreeText | Confirm | Back

_FIELD_NAMES = {  # a caller may also use the name of the type
    "OptionIndex": "option_index",
    "OptionIndexes": "option_indexes",
    "FreeText": "free_text",
    "Confirm": "confirm",
    "Back": "back",
}
_KINDS: dict[str, type[OptionIndex] | type[OptionIndexes] | type[FreeText] | type[Confirm]] = {
    "option_index": OptionIndex,
    "option_indexes": OptionIndexes,
    "free_text": FreeText,
    "confirm": Confirm,
}
_MOST_SHOWN = 60
_HELP = frozenset({"?", "help"})
_UNDECIDED = re.compile(
    r"(?:please )?(?:(?:i )?(?:do not|don['\u2019]?t) (?:know|care|mind)|idk|(?:i )?dunno"
    r"|(?:i have |i['\u2019]ve )?no idea|(?:i['\u2019]?m )?not sure|whatever|no preference|you (?:choose|decide|pick)"
    r"|(?:choose|decide|pick)(?: one)? for me|up to you|surprise me|skip(?: it| this)?)",
)
_EXPECTED = (
    'Expected {"option_index": n}, {"option_indexes": [n, …]}, {"free_text": "…"}, {"confirm": true}, "back" or'
    ' {"back": PHASE}.'
)


def read_answer(wire: Any) -> BuilderAnswer:
    """Read an answer from JSON, with the name of its field or of its type as the key.

    Raises: Invalid
    """
    if isinstance(wire, str) and _FIELD_NAMES.get(wire, wire) == "back":
        return Back()
    if not isinstance(wire, dict) or len(wire) != 1:
        raise Invalid(f"The answer must be one field with its value. {_EXPECTED}")
    [(name, value)] = wire.items()
    name = _FIELD_NAMES.get(name, name)
    if name == "back":
        return Back(back=_phase(value))
    if name not in _KINDS:
        raise Invalid(f"{str(name)[:_MOST_SHOWN]!r} is not a field of an answer. {_EXPECTED}")
    try:
        return _KINDS[name].model_validate({name: value})
    except ValidationError:
        raise Invalid(f"The answer has an invalid {name}. {_EXPECTED}") from None


def is_help(text: str) -> bool:
    """Return whether a text asks for help."""
    return text.strip().casefold() in _HELP


def is_undecided(text: str) -> bool:
    """Return whether a text leaves the choice to Forge: "I don't know, choose for me"."""
    parts = [part.strip() for part in re.split(r"[,.;!]|\band\b|\bso\b", text.strip().casefold()) if part.strip()]
    return 0 < len(parts) <= 3 and all(_UNDECIDED.fullmatch(part) for part in parts)


def write_answer(answer: BuilderAnswer) -> Any:
    """Return an answer as JSON."""
    match answer:
        case Back(back=None):
            return "back"
        case _:
            return answer.model_dump(mode="json")


def text_of(answer: FreeText, what: str = "The answer") -> str:
    """Return free text without white space around it.

    Raises: Invalid when it is empty, too long, or not storable.
    """
    text = answer.free_text.strip()
    if not text:
        raise Invalid(f"{what} is empty. Enter some text.")
    if len(text) > LONGEST_TEXT:
        raise Invalid(f"{what} has {len(text):,} characters; the maximum is {LONGEST_TEXT:,}.")
    if any(ord(character) < 32 and character not in "\n\t" for character in text) or "\x7f" in text:
        raise Invalid(f"{what} contains control characters.")
    return require_storable(text, what)


def _phase(value: Any) -> BuilderPhase | None:
    if value is None:
        return None
    if isinstance(value, str) and value in set(BuilderPhase):
        return BuilderPhase(value)
    shown = repr(value[:_MOST_SHOWN]) if isinstance(value, str) else f"a {type(value).__name__}"
    raise Invalid(f"{shown} is not a phase; the phases are {', '.join(BuilderPhase)}.")
