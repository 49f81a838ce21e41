"""Finding out what a bot is for, from whole words; and what goes well with each purpose."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from perdure.forge.vocabulary import PurposeCategory


@dataclass(frozen=True)
class Defaults:
    """What a category of bots is given unless somebody says otherwise."""

    temperature: float
    max_tokens: int
    tone: str
    traits: tuple[str, ...]
    skills: tuple[str, ...]
    fewest: int
    most: int


DEFAULTS: dict[PurposeCategory, Defaults] = {
    PurposeCategory.SIMPLE_UTILITY: Defaults(0.3, 2048, "direct", ("efficient", "concise"), ("web-search",), 3, 5),
    PurposeCategory.COMPLEX_ANALYST: Defaults(
        *(0.5, 4096, "analytical", ("thorough", "precise", "structured"), ("web-search", "data-analysis"), 6, 10)
    ),
    PurposeCategory.CREATIVE: Defaults(
        *(0.9, 4096, "expressive", ("creative", "imaginative", "playful"), ("text-generation",), 4, 7)
    ),
    PurposeCategory.CODING: Defaults(
        *(0.2, 4096, "technical", ("precise", "methodical", "pragmatic"), ("code-review", "code-generation"), 4, 7)
    ),
    PurposeCategory.RESEARCH: Defaults(
        *(0.5, 4096, "scholarly", ("thorough", "citation-aware", "balanced"), ("web-search", "summarize"), 6, 10)
    ),
    PurposeCategory.CUSTOMER_SERVICE: Defaults(
        *(0.4, 2048, "empathetic", ("patient", "helpful", "clear"), ("knowledge-base",), 4, 7)
    ),
    PurposeCategory.CUSTOM: Defaults(0.7, 4096, "adaptive", ("versatile",), (), 4, 7),
}

# A word counts 2 where it names the purpose itself, 1 where it only goes with it.
_STRONG: dict[PurposeCategory, str] = {
    PurposeCategory.SIMPLE_UTILITY: (
        "timer timers stopwatch alarm alarms reminder reminders remind converter convert calculator calculate countdown"
        " clock todo todos checklist translator translate dictionary weather shopping note notes"
    ),
    PurposeCategory.COMPLEX_ANALYST: (
        "analyst analysts analyse analyze analyses analysing analyzing analysis analytics dashboard dashboards kpi kpis"
        " forecast forecasts forecasting metrics spreadsheet spreadsheets portfolio audit risk financial finance"
    ),
    PurposeCategory.CREATIVE: (
        "story stories storyteller poem poems poetry poet novel novels fiction lyrics song songs creative writer"
        " screenplay brainstorm brainstorming art artist painting slogan slogans copywriter blog worldbuilding"
    ),
    PurposeCategory.CODING: (
        "code coding coder coders codebase programming programmer developer developers debug debugging debugger"
        " refactor refactoring compiler python javascript typescript rust java golang sql software unittest unittests"
        " repository repositories"
    ),
    PurposeCategory.RESEARCH: (
        "research researcher researchers researching literature papers paper citation citations cite scholar scholarly"
        " academic academia thesis survey surveys bibliography sources science scientific"
    ),
    PurposeCategory.CUSTOMER_SERVICE: (
        "customer customers support helpdesk complaint complaints refund refunds ticket tickets faq faqs client clients"
        " receptionist onboarding"
    ),
}
_WEAK: dict[PurposeCategory, str] = {
    PurposeCategory.SIMPLE_UTILITY: "simple quick small tiny list daily minutes hours schedule count tells",
    PurposeCategory.COMPLEX_ANALYST: "data report reports trends trend compare market markets chart charts statistics",
    PurposeCategory.CREATIVE: "write writes writing ideas imagine imaginative characters rhyme humour humor funny",
    PurposeCategory.CODING: "review reviews bug bugs git test tests testing api function functions script scripts",
    PurposeCategory.RESEARCH: "find summarise summarize summaries study studies evidence topic topics articles read",
    PurposeCategory.CUSTOMER_SERVICE: "service help helps questions answers orders shop store users polite",
}
_WORDS: dict[str, list[tuple[PurposeCategory, int]]] = {}
for _weight, _lists in ((2, _STRONG), (1, _WEAK)):
    for _category, _listed in _lists.items():
        for _word in _listed.split():
            _WORDS.setdefault(_word, []).append((_category, _weight))

_EMPTY = (
    "a an the i me my we us our you your it its he she they them that this these those is are be am was were been do"
    " does did can could would should will shall may might must want wants need needs like please make build create"
    " give get have has had for of to in on at by with from and or but so as if then than when which who whom what"
    " bot bots assistant assistants agent agents helper chatbot ai something some any one thing things new just very"
    " really good nice great cool there here about into out up not no yes also all called named"
    " another other others more anything everything"
)
"""Words that say nothing about a purpose."""
_SAYS_NOTHING = frozenset(_EMPTY.split())


@dataclass(frozen=True)
class Purpose:
    """What a description says about the purpose: the best category, and whether that is beyond doubt."""

    category: PurposeCategory
    is_clear: bool
    is_vague: bool
    """Little was said: a category, and nothing that would tell this bot from another."""


@lru_cache(maxsize=64)
def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text, in lower case and in order."""
    return tuple(re.findall(r"[^\W_]+(?:['\u2019][^\W_]+)?", text.casefold()))


def telling_words(text: str) -> list[str]:
    """Return the words of a text that say something."""
    return [word for word in words_of(text) if word not in _SAYS_NOTHING]


def topics(text: str) -> list[str]:
    """Return what a text is about, beside its purpose: the telling words that every bot of its kind does not share."""
    telling = [word for word in telling_words(text) if word.isalpha() and len(word) > 2]
    return [word for word in telling if word not in _WORDS] or telling


@lru_cache(maxsize=256)
def purpose_of(description: str) -> Purpose:
    """Score whole words, so that "smart" is not art; a tie, or no word at all, is not clear."""
    scores: Counter[PurposeCategory] = Counter()
    for word in dict.fromkeys(words_of(description)):
        for category, weight in _WORDS.get(word, ()):
            scores[category] += weight
    telling = set(telling_words(description))
    is_vague = len(telling) < 2
    if not scores:
        return Purpose(PurposeCategory.CUSTOM, is_clear=False, is_vague=is_vague)
    (best, most), *others = scores.most_common()
    is_clear = most >= 2 and (not others or others[0][1] < most)
    return Purpose(best, is_clear=is_clear, is_vague=is_vague)
