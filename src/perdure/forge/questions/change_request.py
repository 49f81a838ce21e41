"""Reads change requests in plain English: "make it friendlier, never swear, and call it Kubi".

A request is split into parts at punctuation, and before words that begin a new instruction. A part that begins with
"never", "always" or "do not" is a rule. In any other part, a name is found by phrases such as "call it", and a tone by
its words, unless a negation stands in front of one. A part without any of these is not recognised, and Forge asks.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from perdure.forge.categories import words_of
from perdure.forge.second_person import about_user

_LANGUAGES = (
    "arabic|bengali|chinese|czech|danish|dutch|english|finnish|french|german|greek|hebrew|hindi|hungarian|indonesian"
    "|italian|japanese|korean|norwegian|polish|portuguese|romanian|russian|spanish|swahili|swedish|thai|turkish"
    "|ukrainian|vietnamese"
)
_IN_LANGUAGE = rf"(?:write|answer|reply|respond|speak|talk)\s+(?:only\s+)?in\s+(?:{_LANGUAGES})\b"
"""An instruction about the language; after "never … and" it is not a part of what is forbidden."""
_PARTS = re.compile(
    rf",?\s+(?:and|but|then)\s+(?=(?:also\s+|please\s+|always\s+)*{_IN_LANGUAGE})|,\s*(?={_IN_LANGUAGE})|"
    r"[.;!\n]+|,?\s+(?:and|but|then)\s+(?=(?:also\s+|please\s+|then\s+)*(?:it|make|be|call|name|rename|never|always|do|don)\b)"
    r"|,\s*(?=(?:also\s+|please\s+)*(?:it|make|be|call|name|rename|never|always|do not|don['\u2019]t)\b)",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"""\b(?:call\s+(?:it|the\s+bot|this\s+bot|him|her)|name\s+(?:it|the\s+bot|this\s+bot|him|her)
          |rename\s+(?:(?:it|the\s+bot|this\s+bot)\s+)?(?:to|as|into)
          |(?:change|set)\s+(?:its|the)\s+name\s+to|(?:its|the|new)\s+name\s+(?:is|should\s+be|shall\s+be|must\s+be)
          |(?:be\s+)?(?:called|named))\s+
        (?:["“'](?P<quoted>[^"”'\n]{1,60})["”']|(?P<plain>[^\W_][\w-]{0,40}(?-i:\ [A-Z][\w-]{0,30}){0,2}))""",
    re.VERBOSE | re.IGNORECASE,
)
_RULE = re.compile(
    r"(?:also\s+|please\s+|then\s+|(?:it|the bot)\s+(?:should|must|may|shall|has to|needs to)\s+)*"
    r"(?P<rule>(?:never|always|do not|don['\u2019]t|not|no longer)\s+\S.*"
    rf"|{_IN_LANGUAGE}.*)",
    re.IGNORECASE,
)
_TONES_TEXT: dict[str, str] = {
    "friendly": "friendly friendlier warm warmer nicer casual informal",
    "formal": "formal polite politer serious professional",
    "playful": "playful funny funnier humorous witty wittier",
    "direct": "direct blunt blunter terse",
    "analytical": "analytical",
    "expressive": "expressive lively livelier",
    "technical": "technical",
    "scholarly": "scholarly academic",
    "empathetic": "empathetic kind kinder gentle gentler",
    "adaptive": "adaptive",
}
_TONES = {word: tone for tone, words in _TONES_TEXT.items() for word in words.split()}
_NOT = frozenset({"less", "not", "never", "no", "too", "without", "isn't", "stop"})
"""A tone after one of these words is not wanted."""


@lru_cache(maxsize=64)
def requested_fields(request: str) -> dict[str, Any]:
    """Return the fields that a request names: a tone, a name, and rules to add."""
    requested: dict[str, Any] = {}
    for part in parts_of(request):
        fields = _fields_of(part)
        if "boundaries" in fields:
            fields["boundaries"] = (*requested.get("boundaries", ()), *fields["boundaries"])
        requested |= fields
    return requested


def parts_of(request: str) -> Sequence[str]:
    """Return the parts of a request, one instruction each."""
    return [part.strip(" ,") for part in _PARTS.split(request) if part.strip(" ,")]


def is_recognised(part: str) -> bool:
    """Return whether a part of a request sets a field."""
    return bool(_fields_of(part))


def _fields_of(part: str) -> dict[str, Any]:
    if rule := _RULE.fullmatch(part):
        return {"boundaries": (_as_rule(rule["rule"]),)}
    fields: dict[str, Any] = {}
    if (name := _NAME.search(part)) is not None:
        fields["name"] = " ".join((name["quoted"] or name["plain"]).split())
        part = part[: name.start()] + part[name.end() :]
    if (tone := _tone_of(part)) is not None:
        fields["tone"] = tone
    return fields


def _as_rule(text: str) -> str:
    """Return a rule as an instruction: "don't swear at me" is "Do not swear at the user."."""
    rule = re.sub(r"^(?:don['\u2019]t|not|no longer)\b", "do not", text.strip(), flags=re.IGNORECASE)
    rule = about_user(rule)
    return f"{rule[:1].upper()}{rule[1:]}".rstrip(".") + "."


def _tone_of(part: str) -> str | None:
    words = words_of(part)
    tones = [_TONES[word] for at, word in enumerate(words) if word in _TONES and not (at and words[at - 1] in _NOT)]
    return tones[0] if len(set(tones)) == 1 else None
