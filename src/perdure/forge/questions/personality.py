"""The personality: how it speaks, and what it never does."""

from perdure.forge.categories import DEFAULTS, words_of
from perdure.forge.choices import alike, favourite
from perdure.forge.questions.slot import Fields, Question, Slot, option
from perdure.forge.state import BuilderState
from perdure.forge.turns import Option
from perdure.forge.vocabulary import BuilderPhase, PurposeCategory

_TONES: dict[str, str] = {
    "direct": "says what there is to say and stops",
    "analytical": "reasons in steps that can be checked",
    "expressive": "colourful, with feeling",
    "technical": "exact terms, no decoration",
    "scholarly": "careful, with sources and doubts",
    "empathetic": "hears how somebody feels and answers to that",
    "adaptive": "takes on the manner of whoever it talks to",
    "formal": "polite and correct, for strangers and records",
    "friendly": "warm and informal, like a colleague",
    "playful": "light, with a joke where one fits",
}
_ALSO: dict[PurposeCategory, tuple[str, ...]] = {
    PurposeCategory.SIMPLE_UTILITY: ("friendly", "playful"),
    PurposeCategory.COMPLEX_ANALYST: ("direct", "formal"),
    PurposeCategory.CREATIVE: ("playful", "friendly"),
    PurposeCategory.CODING: ("friendly", "direct"),
    PurposeCategory.RESEARCH: ("analytical", "friendly"),
    PurposeCategory.CUSTOMER_SERVICE: ("friendly", "formal"),
    PurposeCategory.CUSTOM: ("friendly", "formal"),
}
_NEVER: dict[PurposeCategory, tuple[Option, ...]] = {
    PurposeCategory.CODING: (
        option("no-secrets", "Never print secrets", "keys and passwords stay where they are"),
        option("ask-first", "Ask before it changes files", "you see what it would do, then it does it"),
        option("tests", "Never call code done without a test", "what is not run is not known to work"),
    ),
    PurposeCategory.RESEARCH: (
        option("sources", "Never state a fact without its source", "what has none is called an opinion"),
        option("doubt", "Always say how sure it is", "certain, likely, or a guess"),
        option("no-advice", "No medical or legal advice", "explains, and sends you to somebody who may advise"),
    ),
    PurposeCategory.COMPLEX_ANALYST: (
        option("numbers", "Never invent a number", "a missing figure is named as missing"),
        option("no-trades", "No investment advice", "shows what is, leaves the decision to you"),
        option("private", "Never repeat personal data", "people appear as counts, not as names"),
    ),
    PurposeCategory.CUSTOMER_SERVICE: (
        option("no-promises", "Never promise what it cannot give", "refunds and dates only as the rules say"),
        option("handover", "Hand over when somebody is upset", "a person takes it from there"),
        option("private", "Never repeat personal data", "not even to prove that it knows it"),
    ),
}
_NEVER_ELSE: tuple[Option, ...] = (
    option("honest", "Never pretend to know", "says so when it is not sure"),
    option("private", "Never repeat personal data", "what you tell it stays between you"),
    option("on-topic", "Stay with its task", "says no to everything else, politely"),
)


def _tone_question(state: BuilderState) -> Question:
    names = [DEFAULTS[state.kind].tone, *_ALSO[state.kind]]
    past = [each.tone for each in alike(state) if each.tone not in names]
    options = [
        option(name, name.capitalize(), _TONES.get(name, "as you chose it before"))
        for name in dict.fromkeys(names + past)
    ]
    return Question("How should it speak?", options, favourite(state, lambda past: past.tone, "was", str))


def _told_tone(state: BuilderState) -> Fields:
    said = [tone for tone in _TONES if tone in words_of(state.description)]
    return {"tone": said[0]} if len(said) == 1 else {}


def _boundaries_question(state: BuilderState) -> Question:
    options = [*_NEVER.get(state.kind, _NEVER_ELSE), option("none", "Nothing special", "common sense is enough")]
    return Question("Is there something that it must hold to?", options)


def _chosen_boundaries(state: BuilderState, chosen: str) -> Fields:
    found = [f"{each.label}: {each.description}." for each in _boundaries_question(state).options if each.id == chosen]
    return {"boundaries": () if chosen == "none" else tuple(found)}


TONE = Slot(
    "tone",
    BuilderPhase.PERSONALITY,
    ("tone",),
    ask=_tone_question,
    choose=lambda _state, chosen: {"tone": chosen},
    read=lambda _state, text: {"tone": text},
    told=_told_tone,
)
BOUNDARIES = Slot(
    "boundaries",
    BuilderPhase.PERSONALITY,
    ("boundaries",),
    ask=_boundaries_question,
    choose=_chosen_boundaries,
    read=lambda _state, text: {"boundaries": (text,)},
)
