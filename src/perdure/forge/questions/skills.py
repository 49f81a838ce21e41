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

_COMPLEMENTS: dict[str, tuple[str, ...]] = {
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
_HOME_SKILL = "own-"
"""Prefix of the id of an option that adds a skill of this home."""
_MOST_HOME_SKILLS = 2
_SHORTEST_WORD = 4
"""Minimum length of a word that is compared."""


def complementary_skills(names: Iterable[str], descriptions: Iterable[str]) -> list[str]:
    """Return the known skills that complement the given ones."""
    chosen, known_names = list(names), set(descriptions)
    wanted = (each for name in chosen for each in _COMPLEMENTS.get(name, ()))
    return [each for each in dict.fromkeys(wanted) if each in known_names and each not in chosen]


def _skill_sets(state: BuilderState) -> dict[str, tuple[str, ...]]:
    """Return the offered sets of skills, by the id of their option."""
    descriptions = dict(state.context.skills)
    defaults = tuple(name for name in DEFAULTS[state.kind].skills if name in descriptions)
    more = (*defaults, *complementary_skills(defaults, descriptions))
    sets = {"usual": defaults, "more": more} if more != defaults else {"usual": defaults}
    if not defaults:  # a custom purpose: nothing is assumed
        sets = {_NONE: ()}
    sets |= {f"{_HOME_SKILL}{name}": (*defaults, name) for name in _similar_skills(state)}
    for past in (each.skills for each in similar_choices(state)):
        if past and past not in sets.values() and all(name in descriptions for name in past):
            sets["before"] = past
            break
    if not defaults:
        sets |= {name: (name,) for name in _GENERAL if name in descriptions and (name,) not in sets.values()}
    return {**sets, _NONE: ()}


def _similar_skills(state: BuilderState) -> list[str]:
    """Return the skills of this home that share the most words with the description."""
    said = _words(state.description)
    shared_words = {
        name: _words(f"{name} {about}") & said for name, about in state.context.skills if name not in catalogue()
    }
    return sorted(
        (name for name, shared in shared_words.items() if shared), key=lambda name: (-len(shared_words[name]), name)
    )[:_MOST_HOME_SKILLS]


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"[^\W_]+", text.casefold()) if len(word) >= _SHORTEST_WORD}


def _skills_of_option(state: BuilderState, id_: str) -> tuple[str, ...]:
    """Return the skills of an option; it may have been offered before newer skills changed the sets."""
    sets = _skill_sets(state)
    return sets[id_] if id_ in sets else (*sets.get("usual", ()), id_.removeprefix(_HOME_SKILL))


def _skills_question(state: BuilderState) -> Question:
    sets = _skill_sets(state)
    descriptions = dict(state.context.skills)
    by_names = {skills: id_ for id_, skills in sets.items()}
    suggestion = suggest_most_chosen(state, lambda past: ", ".join(past.skills) or "no skills", "has", str)
    chosen = None if suggestion is None else by_names.get(_split(suggestion.option_id))
    return Question(
        "Which skills should it have? (Other: names, separated by commas)",
        [_option_of(id_, skills, descriptions) for id_, skills in sets.items()],
        None if suggestion is None or chosen is None else Suggestion(option_id=chosen, reason=suggestion.reason),
    )


def _option_of(id_: str, skills: tuple[str, ...], descriptions: dict[str, str]) -> Option:
    if not skills:
        return option(id_, "None", "it talks and runs goals; skills can be added later")
    return option(id_, " + ".join(skills), " ".join(_first_sentence(descriptions[name]) for name in skills))


def _first_sentence(text: str) -> str:
    sentence, end, _ = text.partition(". ")
    return sentence + end.strip()


def _split(text: str) -> tuple[str, ...]:
    return () if text == "no skills" else tuple(filter(None, re.split(r"[,\s]+", text.strip().casefold())))


def _read_skills(state: BuilderState, text: str) -> Fields:
    descriptions = dict(state.context.skills)
    names = tuple(dict.fromkeys(_split(text)))
    if unknown := [name for name in names if name not in descriptions]:
        raise Invalid(f"There is no skill {unknown[0][:60]!r}. There are: {', '.join(descriptions) or 'none'}.")
    return {"skills": _choices(state, names)}


def _choices(state: BuilderState, names: tuple[str, ...]) -> tuple[SkillChoice, ...]:
    descriptions = dict(state.context.skills)
    return tuple(
        SkillChoice(
            name=name,
            description=descriptions[name],
            skill_type="builtin" if name in catalogue() else "builder-created",
        )
        for name in names
    )


SKILLS = Slot(
    "skills",
    BuilderPhase.SKILLS,
    ("skills",),
    ask=_skills_question,
    choose=lambda state, chosen: {"skills": _choices(state, _skills_of_option(state, chosen))},
    read=_read_skills,
    help="A skill is a text that instructs the bot how to do something. `perdure skill list` shows all of them.",
)
