"""The question of the skills."""

import re
from collections.abc import Iterable

from perdure.bots.skills import catalogue
from perdure.errors import Invalid
from perdure.forge.categories import DEFAULTS
from perdure.forge.choices import similar_choices, suggest_most_chosen
from perdure.forge.config import SkillChoice
from perdure.forge.questions.slot import Fields, Question, Slot, option
from perdure.forge.state import BuilderState
from perdure.forge.turns import Option, Suggestion
from perdure.forge.vocabulary import BuilderPhase

_GOES_WITH: dict[str, tuple[str, ...]] = {
    "web-search": ("summarize",),
    "data-analysis": ("summarize",),
    "text-generation": ("summarize",),
    "code-review": ("code-generation",),
    "code-generation": ("code-review",),
    "summarize": ("web-search",),
    "knowledge-base": ("summarize",),
}
_GENERAL = ("web-search", "summarize", "knowledge-base")
"""Skills that are offered for any purpose."""
_NONE = "none"
_OWN = "own-"
"""Prefix of the id of an option that adds a skill of this home."""
_MOST_OWN = 2
_TELLING = 4
"""Minimum length of a word that is compared."""


def complementary_skills(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the known skills that complement the given ones."""
    have, there = list(names), set(known)
    wanted = (each for name in have for each in _GOES_WITH.get(name, ()))
    return [each for each in dict.fromkeys(wanted) if each in there and each not in have]


def _sets(state: BuilderState) -> dict[str, tuple[str, ...]]:
    """Return the offered sets of skills, by the id of their option."""
    known = dict(state.context.skills)
    usual = tuple(name for name in DEFAULTS[state.kind].skills if name in known)
    more = (*usual, *complementary_skills(usual, known))
    sets = {"usual": usual, "more": more} if more != usual else {"usual": usual}
    if not usual:  # a custom purpose: nothing is assumed
        sets = {_NONE: ()}
    sets |= {f"{_OWN}{name}": (*usual, name) for name in _fitting(state)}
    for past in (each.skills for each in similar_choices(state)):
        if past and past not in sets.values() and all(name in known for name in past):
            sets["before"] = past
            break
    if not usual:
        sets |= {name: (name,) for name in _GENERAL if name in known and (name,) not in sets.values()}
    return {**sets, _NONE: ()}


def _fitting(state: BuilderState) -> list[str]:
    """Return the skills of this home that share the most words with the description."""
    said = _words(state.description)
    own = {name: _words(f"{name} {about}") & said for name, about in state.context.skills if name not in catalogue()}
    return sorted((name for name, shared in own.items() if shared), key=lambda name: (-len(own[name]), name))[
        :_MOST_OWN
    ]


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"[^\W_]+", text.casefold()) if len(word) >= _TELLING}


def _chosen(state: BuilderState, id_: str) -> tuple[str, ...]:
    """Return the skills of an option, also of one that newer skills replaced since it was offered."""
    sets = _sets(state)
    return sets[id_] if id_ in sets else (*sets.get("usual", ()), id_.removeprefix(_OWN))


def _skills_question(state: BuilderState) -> Question:
    sets = _sets(state)
    known = dict(state.context.skills)
    by_names = {skills: id_ for id_, skills in sets.items()}
    suggestion = suggest_most_chosen(state, lambda past: ", ".join(past.skills) or "no skills", "has", str)
    chosen = None if suggestion is None else by_names.get(_split(suggestion.option_id))
    return Question(
        "Which skills should it have? (Other: names, separated by commas)",
        [_offer(id_, skills, known) for id_, skills in sets.items()],
        None if suggestion is None or chosen is None else Suggestion(option_id=chosen, reason=suggestion.reason),
    )


def _offer(id_: str, skills: tuple[str, ...], known: dict[str, str]) -> Option:
    if not skills:
        return option(id_, "None", "it talks and runs goals; skills can be added later")
    return option(id_, " + ".join(skills), " ".join(_first_sentence(known[name]) for name in skills))


def _first_sentence(text: str) -> str:
    sentence, end, _ = text.partition(". ")
    return sentence + end.strip()


def _split(text: str) -> tuple[str, ...]:
    return () if text == "no skills" else tuple(filter(None, re.split(r"[,\s]+", text.strip().casefold())))


def _read_skills(state: BuilderState, text: str) -> Fields:
    known = dict(state.context.skills)
    names = tuple(dict.fromkeys(_split(text)))
    if unknown := [name for name in names if name not in known]:
        raise Invalid(f"There is no skill {unknown[0][:60]!r}. There are: {', '.join(known) or 'none'}.")
    return {"skills": _choices(state, names)}


def _choices(state: BuilderState, names: tuple[str, ...]) -> tuple[SkillChoice, ...]:
    known = dict(state.context.skills)
    return tuple(
        SkillChoice(
            name=name, description=known[name], skill_type="builtin" if name in catalogue() else "builder-created"
        )
        for name in names
    )


SKILLS = Slot(
    "skills",
    BuilderPhase.SKILLS,
    ("skills",),
    ask=_skills_question,
    choose=lambda state, chosen: {"skills": _choices(state, _chosen(state, chosen))},
    read=_read_skills,
    help="A skill is a text that instructs the bot how to do something. `perdure skill list` shows all of them.",
)
