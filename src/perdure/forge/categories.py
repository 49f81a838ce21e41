"""Suggests the purpose of a bot from the words of its description, and has the defaults of each category.

Every word of a description votes for the purposes that list it: a word that names a purpose counts 2, a word that only
occurs with it counts 1, and a repeated word counts once. Only whole words count, so that "smart" is not "art". The best
purpose is clear if it has at least 2 points and more than every other one; otherwise the person is asked.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from perdure.forge.vocabulary import BotPurpose, PurposeCategory


@dataclass(frozen=True)
class Defaults:
    """The defaults of a category of bots, and the range of the number of questions in its interviews."""

    temperature: float
    max_tokens: int
    tone: str
    traits: tuple[str, ...]
    skills: tuple[str, ...]
    min_questions: int
    max_questions: int


DEFAULTS: dict[PurposeCategory, Defaults] = {
    PurposeCategory.SIMPLE_UTILITY: Defaults(
        temperature=0.3,
        max_tokens=2048,
        tone="direct",
        traits=("efficient", "concise"),
        skills=("web-search",),
        min_questions=3,
        max_questions=7,
    ),
    PurposeCategory.COMPLEX_ANALYST: Defaults(
        temperature=0.5,
        max_tokens=4096,
        tone="analytical",
        traits=("thorough", "precise", "structured"),
        skills=("web-search", "data-analysis"),
        min_questions=6,
        max_questions=10,
    ),
    PurposeCategory.CREATIVE: Defaults(
        temperature=0.9,
        max_tokens=4096,
        tone="expressive",
        traits=("creative", "imaginative", "playful"),
        skills=("text-generation",),
        min_questions=4,
        max_questions=7,
    ),
    PurposeCategory.CODING: Defaults(
        temperature=0.2,
        max_tokens=4096,
        tone="technical",
        traits=("precise", "methodical", "pragmatic"),
        skills=("code-review", "code-generation"),
        min_questions=4,
        max_questions=7,
    ),
    PurposeCategory.RESEARCH: Defaults(
        temperature=0.5,
        max_tokens=4096,
        tone="scholarly",
        traits=("thorough", "citation-aware", "balanced"),
        skills=("web-search", "summarize"),
        min_questions=6,
        max_questions=10,
    ),
    PurposeCategory.CUSTOMER_SERVICE: Defaults(
        temperature=0.4,
        max_tokens=2048,
        tone="empathetic",
        traits=("patient", "helpful", "clear"),
        skills=("knowledge-base",),
        min_questions=4,
        max_questions=7,
    ),
    PurposeCategory.CUSTOM: Defaults(
        temperature=0.7,
        max_tokens=4096,
        tone="adaptive",
        traits=("versatile",),
        skills=(),
        min_questions=4,
        max_questions=7,
    ),
}

_STRONG: dict[BotPurpose, str] = {
    BotPurpose.CODING: (
        "code coding coder coders codebase programming programmer developer developers debug debugging debugger"
        " refactor refactoring compiler python javascript typescript rust java golang sql software unittest unittests"
        " repository repositories django"
    ),
    BotPurpose.WRITING: (
        "story stories storyteller poem poems poetry poet novel novels fiction lyrics song songs creative writer"
        " screenplay brainstorm brainstorming art artist painting slogan slogans copywriter blog worldbuilding essay"
        " essays newsletter proofread proofreader editor letter letters speech"
    ),
    BotPurpose.RESEARCH: (
        "research researcher researchers researching literature papers paper citation citations cite scholar scholarly"
        " academic academia bibliography sources science scientific"
    ),
    BotPurpose.DATA: (
        "data analyst analysts analyse analyze analyses analysing analyzing analysis analytics dashboard dashboards kpi"
        " kpis forecast forecasts forecasting metrics spreadsheet spreadsheets portfolio audit risk financial csv"
    ),
    BotPurpose.STUDY: (
        "tutor tutors tutoring teach teacher teaches learn learning exam exams homework flashcards flashcard quiz"
        " quizzes vocabulary study studying student students lesson lessons revision"
    ),
    BotPurpose.CUSTOMER_SERVICE: (
        "customer customers helpdesk complaint complaints refund refunds faq faqs client clients receptionist"
    ),
    BotPurpose.PERSONAL_ASSISTANT: (
        "timer timers stopwatch alarm alarms reminder reminders remind reminds converter convert calculator calculate"
        " countdown clock todo todos checklist translator translate dictionary weather note notes calendar inbox"
        " appointments appointment"
    ),
    BotPurpose.HOUSEHOLD: (
        "household family families kids children chores groceries grocery shopping recipe recipes cook cooking cooks"
        " kitchen meal meals dinner dinners lunch lunches breakfast supper garden gardening plants cleaning"
        " laundry"
    ),
    BotPurpose.TRAVEL: (
        "travel travels travelling traveling traveller trip trips journey journeys itinerary itineraries flight flights"
        " hotel hotels vacation holiday holidays sightseeing backpacking"
    ),
    BotPurpose.HEALTH: (
        "fitness workout workouts exercise exercises running sleep sleeping diet nutrition healthy health habit habits"
        " meditation meditate gym yoga steps calories wellbeing smoking"
    ),
    BotPurpose.ON_CALL: (
        "incident incidents outage outages oncall pager pagerduty runbook runbooks alert alerts postmortem postmortems"
        " sre monitoring"
    ),
    BotPurpose.GAMES: (
        "game games gaming rpg dungeon dungeons chess puzzle puzzles trivia roleplay quest quests campaign boardgame"
        " boardgames riddle riddles dnd"
    ),
}
_WEAK: dict[BotPurpose, str] = {
    BotPurpose.CODING: "review reviews bug bugs git test tests testing api function functions script scripts pull",
    BotPurpose.WRITING: "write writes writing ideas imagine imaginative characters rhyme humour humor funny post posts",
    BotPurpose.RESEARCH: "find summarise summarize summaries studies evidence topic topics articles read reads survey",
    BotPurpose.DATA: "report reports trends trend compare market markets chart charts statistics finance figures",
    BotPurpose.STUDY: "explain explains math maths grammar language languages spanish french german school course",
    BotPurpose.CUSTOMER_SERVICE: "support service orders shop store users ticket tickets polite",
    BotPurpose.PERSONAL_ASSISTANT: (
        "simple quick small tiny list lists daily minutes hours schedule count email emails diary journal track books"
    ),
    BotPurpose.HOUSEHOLD: "home house pasta bake baking tea coffee budget bills pets dog cat",
    BotPurpose.TRAVEL: "city cities museum museums booking visit tour tours packing train trains",
    BotPurpose.HEALTH: "coach run motivates motivate water weight stress training",
    BotPurpose.ON_CALL: "call production logs server servers deploy deploys deployment",
    BotPurpose.GAMES: "play player players master characters level",
}
_NOT_AFTER_BOOK = (
    "about|club|list|review|i|we|you|that|which|by|from|for|with|in|on|of|to|and|or|is|are|should|do|did|can|would|has"
)
_KEYWORD = re.compile(
    rf"""\b(?P<oncall>on[- ]call)\b
        |\b(?P<diary>keep(?:s|ing)?\s+(?:[\w'-]+\s+){{0,3}}?(?:log|diary|journal|record|track))\b
        |\b(?P<past>(?:i|we)\s+(?:have\s+)?read)\b
        |(?:^|(?<=to\s)|(?<=and\s)|(?<=that\s)|(?<=which\s)|(?<=who\s)|(?<=can\s)|(?<=please\s)|(?<=,\s))
         (?P<booking>books?)(?=\s+(?!(?:{_NOT_AFTER_BOOK})\b)\w)
        |[^\W_]+(?:['\u2019][^\W_]+)?""",
    re.VERBOSE,
)
"""A word, or a phrase whose meaning is not that of its words; the name of its group is then the keyword.

- `oncall`: "on call" is the purpose ON_CALL, while "call" alone only occurs with it.
- `diary`: "keep a reading log" is a diary, a word of personal assistants; "log" and "reading" are not.
- `past`: "I have read" is in no list, so that "recommend books like those I read" is not research.
- `booking`: "books" as a verb, as in "a bot that books hotels", is a word of travel; as a noun it is not.
"""
_WORDS: dict[str, list[tuple[BotPurpose, int]]] = {}
for _weight, _lists in ((2, _STRONG), (1, _WEAK)):
    for _kind, _listed in _lists.items():
        for _word in _listed.split():
            _WORDS.setdefault(_word, []).append((_kind, _weight))

_STOP_WORDS_TEXT = (
    "a an the i me my we us our you your it its he she they them that this these those is are be am was were been do"
    " does did can could would should will shall may might must want wants need needs like please make build create"
    " give get have has had for of to in on at by with from and or but so as if then than when which who whom what"
    " bot bots assistant assistants agent agents helper chatbot ai something some any one thing things new just very"
    " really good nice great cool there here about into out up not no yes also all called named"
    " another other others more anything everything help helps helping somebody someone anybody anyone everybody"
    " everyone nobody people person personal tell tells say says know knows use using work works day days"
)
"""Words without any meaning for a purpose."""
_STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())


@dataclass(frozen=True)
class PurposeGuess:
    """The purpose that a description suggests."""

    purpose: BotPurpose
    is_clear: bool
    """Whether it has at least 2 points, and more than every other purpose."""
    is_too_short: bool
    """Whether the description has fewer than two different significant words."""

    @property
    def category(self) -> PurposeCategory:
        return self.purpose.category


@lru_cache(maxsize=64)
def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text, in lower case and in order."""
    return tuple(re.findall(r"[^\W_]+(?:['\u2019][^\W_]+)?", text.casefold()))


def significant_words(text: str) -> list[str]:
    """Return the words of a text that are not stop words."""
    return [word for word in words_of(text) if word not in _STOP_WORDS]


def topics(text: str) -> list[str]:
    """Return the significant words of a text that do not name a purpose; if all do, return all."""
    telling = [word for word in significant_words(text) if word.isalpha() and len(word) > 2]
    return [word for word in telling if word not in _WORDS] or telling


@lru_cache(maxsize=64)
def keywords_of(text: str) -> Mapping[str, str]:
    """Return the keywords of a text for purposes and capabilities, each with the words of the text that it stands for.

    A phrase counts as one word: "keep a reading log" is a diary, and only the verb "book" is a booking.
    """
    return {match.lastgroup or match[0]: match[0] for match in _KEYWORD.finditer(text.casefold())}


@lru_cache(maxsize=256)
def guess_purpose(description: str) -> PurposeGuess:
    """Return the purpose with the most points; the docstring of the module says how words are counted."""
    scores: Counter[BotPurpose] = Counter()
    for word in keywords_of(description):
        for purpose, weight in _WORDS.get(word, ()):
            scores[purpose] += weight
    is_too_short = len(set(significant_words(description))) < 2
    if not scores:
        return PurposeGuess(BotPurpose.OTHER, is_clear=False, is_too_short=is_too_short)
    (best, most), *others = scores.most_common()
    is_clear = most >= 2 and (not others or others[0][1] < most)
    return PurposeGuess(best, is_clear=is_clear, is_too_short=is_too_short)
