"""Names for a bot, from what its description says."""

import re
import zlib

from perdure.forge.categories import topics
from perdure.forge.vocabulary import PurposeCategory

_GIVEN = re.compile(
    r"""\b(?:called|named|call\ it|name\ it|name\ is)\s+
        (?:["“'](?P<quoted>[^"”'\n]{1,60})["”'] | (?P<plain>[A-Z][\w-]{0,30}(?:\ [A-Z][\w-]{0,30}){0,2}))""",
    re.VERBOSE,
)
_PROPER = re.compile(r"(?<=[\w,;:]\s)[^\W\d_]+")
"""A word inside a sentence, where a capital letter means something: a name, and in German any thing."""
_CLAUSE = re.compile(r"\b(?:that|which|who|whose|so)\b|[.;:!?]", re.IGNORECASE)
"""Where a description goes on from what a bot is to what it does."""
_WHEN = frozenset({"every", "each", "day", "days", "week", "weeks", "month", "months", "year", "years"})
_LONGEST_WORD = 30
"""What is longer is no word that a bot could be called by."""
_ROLES: dict[PurposeCategory, str] = {
    PurposeCategory.SIMPLE_UTILITY: "Keeper",
    PurposeCategory.COMPLEX_ANALYST: "Lens",
    PurposeCategory.CREATIVE: "Muse",
    PurposeCategory.CODING: "Smith",
    PurposeCategory.RESEARCH: "Scholar",
    PurposeCategory.CUSTOMER_SERVICE: "Desk",
    PurposeCategory.CUSTOM: "Companion",
}
_SHORT: dict[PurposeCategory, tuple[str, ...]] = {
    PurposeCategory.SIMPLE_UTILITY: ("Tick", "Nudge", "Pip", "Dot"),
    PurposeCategory.COMPLEX_ANALYST: ("Prism", "Ledger", "Compass", "Plumb"),
    PurposeCategory.CREATIVE: ("Quill", "Fable", "Ember", "Verse"),
    PurposeCategory.CODING: ("Patch", "Anvil", "Lint", "Rivet"),
    PurposeCategory.RESEARCH: ("Folio", "Atlas", "Margin", "Almanac"),
    PurposeCategory.CUSTOMER_SERVICE: ("Harbour", "Concierge", "Welcome", "Beacon"),
    PurposeCategory.CUSTOM: ("Sage", "Nova", "Rowan", "Wren"),
}


def given_name(description: str) -> str | None:
    """Return the name that a description gives the bot."""
    found = _GIVEN.search(description)
    name = " ".join((found["quoted"] or found["plain"]).split()) if found else ""
    return name if name and name.isprintable() else None


def proposed_names(description: str, category: PurposeCategory) -> list[tuple[str, str]]:
    """Propose names, each with the reason for it; the same description gets the same names."""
    telling = [word.capitalize() for word in _subject(description) if len(word) <= _LONGEST_WORD][-2:]
    role = _ROLES[category]
    names = []
    if telling:
        names.append((f"{telling[-1]} {role}", f"says what it is about: {telling[-1].lower()}"))
    if len(telling) == 2:
        names.append((" ".join(telling), "two of your words"))
    short = _SHORT[category]
    at = zlib.crc32(description.encode(errors="replace"))
    names.append((short[at % len(short)], "short, and easy to call"))
    if len(names) == 1:
        names.append((short[(at + 1) % len(short)], "short, too, with another ring"))
    return names


def _subject(description: str) -> list[str]:
    """Return the words that a bot is best called by: names of things, else what it is, else what it does."""
    found = topics(description)
    capital = {word.casefold() for word in _PROPER.findall(description) if word[0].isupper() and not word.isupper()}
    what_it_is = topics(_CLAUSE.split(description, maxsplit=1)[0])
    best = [word for word in found if word in capital] or what_it_is or found
    return [word for word in best if word not in _WHEN] or best
