"""Capabilities that a skill can require: a fixed list, suggested from the words of a description."""

from collections.abc import Iterable
from dataclasses import dataclass

from perdure.errors import Invalid
from perdure.forge.categories import keywords_of


@dataclass(frozen=True)
class Capability:
    """An ability that a skill requires of a bot."""

    name: str
    instruction: str
    """The instruction in the SKILL.md."""
    words: frozenset[str]


@dataclass(frozen=True)
class SuggestedCapability:
    """A capability that a description suggests, with the reason."""

    name: str
    reason: str


def _capability(name: str, instruction: str, words: str) -> Capability:
    return Capability(name, instruction, frozenset(words.split()))


CAPABILITIES: dict[str, Capability] = {
    each.name: each
    for each in (
        _capability(
            "read-files",
            "Read files that the user names.",
            "read reads file files document documents pdf csv log logs folder repository code spreadsheet",
        ),
        _capability(
            "write-files",
            "Write files, after showing what would be written.",
            "write writes save saves file create creates generate generates report reports export rename",
        ),
        _capability(
            "run-commands",
            "Run commands, after showing them.",
            "run runs command commands test tests build compile deploy shell script scripts git",
        ),
        _capability(
            "search-web",
            "Search the web, and name every source.",
            "web search searches news online internet website websites weather current latest price prices rates",
        ),
        _capability(
            "call-services",
            "Call services over HTTP, with the credentials that the user set up.",
            "api http webhook service services email emails calendar slack send sends post posts fetch fetches",
        ),
        _capability(
            "calculate",
            "Calculate exactly, and show the steps.",
            "calculate calculates convert converts count counts sum amounts currency currencies unit units statistics",
        ),
        _capability(
            "remember",
            "Remember facts for later conversations.",
            "remember remembers remind reminds track tracks history preferences diary journal note notes list lists",
        ),
        _capability(
            "ask-user",
            "Ask the user before a step that cannot be undone.",
            "ask asks confirm approve approval delete deletes pay pays buy buys booking order orders",
        ),
    )
}


def suggest_capabilities(description: str) -> list[SuggestedCapability]:
    """Return the capabilities whose words a description contains, with those words as the reason."""
    keywords = keywords_of(description)
    suggested = []
    for capability in CAPABILITIES.values():
        words = [shown for word, shown in keywords.items() if word in capability.words]
        if words:
            quoted = ", ".join(f'"{word}"' for word in words)
            suggested.append(SuggestedCapability(capability.name, f"the description says {quoted}"))
    return suggested


def require_capabilities(names: Iterable[str]) -> tuple[Capability, ...]:
    """Return capabilities by their names, without duplicates.

    Raises: Invalid, naming the first unknown one and all known ones.
    """
    known = tuple(dict.fromkeys(names))
    for name in known:
        if name not in CAPABILITIES:
            raise Invalid(f"{name[:60]!r} is not a known capability. Expected some of: {', '.join(CAPABILITIES)}.")
    return tuple(CAPABILITIES[name] for name in known)
