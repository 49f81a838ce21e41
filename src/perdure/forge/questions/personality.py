"""Questions of the personality: the tone, and the rules."""

from collections.abc import Mapping, Sequence

from perdure.forge.categories import DEFAULTS, words_of
from perdure.forge.choices import similar_choices, suggest_most_chosen
from perdure.forge.questions.change_request import requested_fields
from perdure.forge.questions.purpose_question import Preset
from perdure.forge.questions.slot import Fields, Question, Slot, option
from perdure.forge.second_person import about_user
from perdure.forge.state import KEEP, REQUESTED, BuilderState
from perdure.forge.turns import AskQuestion, Option
from perdure.forge.vocabulary import BotPurpose, BuilderPhase, PurposeCategory

_TONES: dict[str, str] = {
    "direct": "says what there is to say and stops",
    "analytical": "reasons in steps that can be checked",
    "expressive": "colourful, with feeling",
    "technical": "exact terms, no decoration",
    "scholarly": "careful, with sources and doubts",
    "empathetic": "hears how you feel and answers to that",
    "adaptive": "takes on the manner of the person it talks to",
    "formal": "polite and correct, for strangers and records",
    "friendly": "warm and informal, like a colleague",
    "playful": "light, with a joke where one fits",
}
_OTHER_TONES: dict[PurposeCategory, tuple[str, ...]] = {
    PurposeCategory.SIMPLE_UTILITY: ("friendly", "playful"),
    PurposeCategory.COMPLEX_ANALYST: ("direct", "formal"),
    PurposeCategory.CREATIVE: ("playful", "friendly"),
    PurposeCategory.CODING: ("friendly", "direct"),
    PurposeCategory.RESEARCH: ("analytical", "friendly"),
    PurposeCategory.CUSTOMER_SERVICE: ("friendly", "formal"),
    PurposeCategory.CUSTOM: ("friendly", "formal"),
}
_NONE = "none"
_HONEST = Preset(
    "honest",
    "Never pretend to know",
    "says so when it is not sure",
    "Never pretend to know: say when you are not sure.",
)
_PRIVATE = Preset(
    "private",
    "Never repeat personal data",
    "what you tell it stays between you",
    "Never repeat personal data: what the user tells you stays between you.",
)
_SECRETS = Preset(
    "no-secrets",
    "Never print secrets",
    "keys and passwords stay where they are",
    "Never print secrets: keys and passwords stay where they are.",
)
_RULES: dict[BotPurpose, tuple[Preset, ...]] = {
    BotPurpose.CODING: (
        _SECRETS,
        Preset(
            "ask-first",
            "Ask before it changes files",
            "you see what it would do, then it does it",
            "Ask before you change files: show what you would do, and do it after a yes.",
        ),
        Preset(
            "tests",
            "Never call code done without a test",
            "what is not run is not known to work",
            "Never call code done without a test: what was not run is not known to work.",
        ),
    ),
    BotPurpose.RESEARCH: (
        Preset(
            "sources",
            "Never state a fact without its source",
            "what has none is called an opinion",
            "Never state a fact without its source; what has none is called an opinion.",
        ),
        Preset(
            "doubt",
            "Always say how sure it is",
            "certain, likely, or a guess",
            "Always say how sure you are: certain, likely, or a guess.",
        ),
        Preset(
            "no-advice",
            "No medical or legal advice",
            "explains, and refers you to a professional",
            "Give no medical or legal advice: explain, and refer to a professional.",
        ),
    ),
    BotPurpose.DATA: (
        Preset(
            "numbers",
            "Never invent a number",
            "a missing figure is named as missing",
            "Never invent a number: name a missing figure as missing.",
        ),
        Preset(
            "no-trades",
            "No investment advice",
            "shows what is, leaves the decision to you",
            "Give no investment advice: show what is, and leave the decision to the user.",
        ),
        Preset(
            "private",
            "Never repeat personal data",
            "people appear as counts, not as names",
            "Never repeat personal data: people appear as counts, not as names.",
        ),
    ),
    BotPurpose.CUSTOMER_SERVICE: (
        Preset(
            "no-promises",
            "Never promise what it cannot give",
            "refunds and dates only as the rules say",
            "Never promise what you cannot give: refunds and dates only as the rules say.",
        ),
        Preset(
            "polite",
            "Stay polite, whatever is said",
            "no argument, no irony",
            "Stay polite, whatever is said to you: no argument, no irony.",
        ),
        Preset(
            "private",
            "Never repeat personal data",
            "not even to prove that it knows it",
            "Never repeat personal data, not even to prove that you know it.",
        ),
    ),
    BotPurpose.STUDY: (
        Preset(
            "no-homework",
            "Never do my homework",
            "explains, and lets me do it",
            "Never do the user's homework: explain, and let them do it.",
        ),
        _HONEST,
        Preset(
            "kind",
            "Never laugh at a mistake",
            "a mistake shows what to explain",
            "Never laugh at a mistake: it shows what to explain.",
        ),
    ),
    BotPurpose.ON_CALL: (
        Preset(
            "ask-first",
            "Ask before it changes anything",
            "production is not a playground",
            "Ask before you change anything in production.",
        ),
        _SECRETS,
        Preset(
            "facts",
            "Never guess a cause",
            "says what is known, and what is only likely",
            "Never guess a cause: separate what is known from what is only likely.",
        ),
    ),
    BotPurpose.HEALTH: (
        Preset(
            "no-doctor",
            "No medical advice",
            "sends you to a doctor with every symptom",
            "Give no medical advice: send the user to a doctor with every symptom.",
        ),
        Preset(
            "no-blame", "Never blame", "a missed day is a day, and no more", "Never blame: a missed day is one day."
        ),
        _PRIVATE,
    ),
    BotPurpose.GAMES: (
        Preset("fair", "Never cheat", "the rules hold for it, too", "Never cheat: the rules hold for you, too."),
        Preset("no-spoilers", "Never spoil a story", "unless you ask for it", "Never spoil a story unless asked to."),
        Preset(
            "safe", "Nothing frightening", "suitable for children", "Say nothing frightening: children may read along."
        ),
    ),
}
_OTHER_RULES: tuple[Preset, ...] = (
    _HONEST,
    _PRIVATE,
    Preset(
        "on-topic",
        "Stay with its task",
        "says no to everything else, politely",
        "Stay with your task, and decline everything else politely.",
    ),
)


def _tone_question(state: BuilderState) -> Question:
    names = [DEFAULTS[state.kind].tone, *_OTHER_TONES[state.kind]]
    past = [each.tone for each in similar_choices(state) if each.tone not in names]
    options = [
        option(name, name.capitalize(), _TONES.get(name, "as you chose it before"))
        for name in dict.fromkeys(names + past)
    ]
    return Question("How should it speak?", options, suggest_most_chosen(state, lambda past: past.tone, "was", str))


def _tone_from_description(state: BuilderState) -> Fields:
    tones = [tone for tone in _TONES if tone in words_of(state.description)]
    return {"tone": tones[0]} if len(tones) == 1 else {}


def _offered_rules(state: BuilderState) -> tuple[Preset, ...]:
    return _RULES.get(state.purpose, _OTHER_RULES)


def _boundaries_question(state: BuilderState) -> Question:
    options = [option(each.id, each.label, each.why) for each in _offered_rules(state)]
    none = option(_NONE, "Nothing special", "common sense is enough")
    return Question("Which rules must it keep to?", [*options, none], multiple=True)


def _rules(state: BuilderState) -> dict[str, str]:
    """Return the offered rules, by the id of their option."""
    return {each.id: each.sentence for each in _offered_rules(state)}


def _chosen_boundaries(state: BuilderState, chosen: Sequence[str]) -> Fields:
    rules = _rules(state)
    return {"boundaries": tuple(rules[each] for each in dict.fromkeys(chosen) if each != _NONE)}


def _read_boundaries(state: BuilderState, text: str) -> Fields:
    """Read one rule per line; a line with the label of an option stands for that option."""
    ids_by_label = {each.label.casefold(): each.id for each in _options_of(state)}
    known_rules = {id_: (rule,) for id_, rule in _rules(state).items()} | {_NONE: (), KEEP: _present_rules(state)}
    if requested := requested_fields(state.request).get("boundaries", ()):
        known_rules[REQUESTED] = (*_present_rules(state), *requested)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    rules = [rule for line in lines for rule in known_rules.get(ids_by_label.get(line.casefold(), ""), (line,))]
    return {
        "boundaries": tuple(
            dict.fromkeys(rule if rule in _known_texts(known_rules) else about_user(rule) for rule in rules)
        )
    }


def _known_texts(known: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return the known rules, which are not rewritten; rules that a person types are put into the third person."""
    return {rule for rules in known.values() for rule in rules}


def _options_of(state: BuilderState) -> Sequence[Option]:
    pending = state.pending_turn.options if isinstance(state.pending_turn, AskQuestion) else ()
    return [*_boundaries_question(state).options, *pending]


def _present_rules(state: BuilderState) -> tuple[str, ...]:
    """Return the rules that an existing bot has."""
    personality = {} if state.target is None else state.target.config.get("personality", {})
    return tuple(personality.get("boundaries", ()))


TONE = Slot(
    "tone",
    BuilderPhase.PERSONALITY,
    ("tone",),
    ask=_tone_question,
    choose=lambda _state, chosen: {"tone": chosen},
    read=lambda _state, text: {"tone": about_user(text, is_known=True)},
    from_description=_tone_from_description,
    help="The tone is written into SOUL.md and colours every answer of the bot. One word is enough.",
)
BOUNDARIES = Slot(
    "boundaries",
    BuilderPhase.PERSONALITY,
    ("boundaries",),
    ask=_boundaries_question,
    choose=lambda state, chosen: _chosen_boundaries(state, [chosen]),
    choose_several=_chosen_boundaries,
    read=_read_boundaries,
    help="Rules are written into SOUL.md under Boundaries. Choose as many as you like, or write your own.",
)
