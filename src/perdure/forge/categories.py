"""Finding out what a bot is for, from whole words; and what goes well with each purpose."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from perdure.forge.vocabulary import BotPurpose, PurposeCategory


@dataclass(frozen=True)
class Defaults:
    """What a category of bots is given unless the person says otherwise."""

    temperature: float
    max_tokens: int
    tone: str
    traits: tuple[str, ...]
    skills: tuple[str, ...]
    fewest: int
    most: int


DEFAULTS: dict[PurposeCategory, Defaults] = {
    PurposeCategory.SIMPLE_UTILITY: Defaults(0.3, 2048, "direct", ("efficient", "concise"), ("web-search",), 3, 7),
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
        " kitchen meal meals dinner garden gardening plants cleaning laundry"
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
    BotPurpose.PERSONAL_ASSISTANT: "simple quick small tiny list lists daily minutes hours schedule count email emails",
    BotPurpose.HOUSEHOLD: "home house pasta bake baking tea coffee budget bills pets dog cat",
    BotPurpose.TRAVEL: "city cities museum museums book visit tour tours packing train trains",
    BotPurpose.HEALTH: "coach run motivates motivate water weight stress training",
    BotPurpose.ON_CALL: "call production logs server servers deploy deploys deployment",
    BotPurpose.GAMES: "play player players master characters level",
}
_ON_CALL = re.compile(r"\bon[- ]call\b", re.IGNORECASE)
_WORDS: dict[str, list[tuple[BotPurpose, int]]] = {}
for _weight, _lists in ((2, _STRONG), (1, _WEAK)):
    for _kind, _listed in _lists.items():
        for _word in _listed.split():
            _WORDS.setdefault(_word, []).append((_kind, _weight))

_EMPTY = (
    "a an the i me my we us our you your it its he she they them that this these those is are be am was were been do"
    " does did can could would should will shall may might must want wants need needs like please make build create"
    " give get have has had for of to in on at by with from and or but so as if then than when which who whom what"
    " bot bots assistant assistants agent agents helper chatbot ai something some any one thing things new just very"
    " really good nice great cool there here about into out up not no yes also all called named"
    " another other others more anything everything help helps helping somebody someone anybody anyone everybody"
    " everyone nobody people person personal tell tells say says know knows use using work works day days"
)
"""Words that say nothing about a purpose."""
_SAYS_NOTHING = frozenset(_EMPTY.split())


@dataclass(frozen=True)
class FoundPurpose:
    """What a description says about the purpose: the best one, and whether that is beyond doubt."""

    purpose: BotPurpose
    is_clear: bool
    is_vague: bool
    """Little was said: a purpose, and nothing that would distinguish this bot from another."""

    @property
    def category(self) -> PurposeCategory:
        return self.purpose.category


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
def purpose_of(description: str) -> FoundPurpose:
    """Score whole words, so that "smart" is not art; a tie, or no word at all, is not clear."""
    scores: Counter[BotPurpose] = Counter()
    for word in dict.fromkeys(words_of(_ON_CALL.sub("oncall", description))):
        for purpose, weight in _WORDS.get(word, ()):
            scores[purpose] += weight
    is_vague = len(set(telling_words(description))) < 2
    if not scores:
        return FoundPurpose(BotPurpose.OTHER, is_clear=False, is_vague=is_vague)
    (best, most), *others = scores.most_common()
    is_clear = most >= 2 and (not others or others[0][1] < most)
    return FoundPurpose(best, is_clear=is_clear, is_vague=is_vague)
