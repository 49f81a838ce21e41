"""What an interview knows of the world when it begins: models, skills, and what was chosen before."""

import re
from collections.abc import Iterable, Mapping
from itertools import islice

from perdure.forge.ports import BuilderMemoryEntry
from perdure.forge.state import PastChoice

RECALLED = 30
"""How many past choices of a category are looked at; a bot that was changed often has several of them."""
_OF_EACH = 3
_MODEL = re.compile(r"[a-z][a-z0-9-]{0,40}:\S{1,150}")
_BY_VARIABLE = {
    "OPENAI_API_KEY": "openai:gpt-4.1-mini",
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-5",
    "OLLAMA_HOST": "ollama:llama3.2",
}


def detected_models(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the models that the environment speaks of, the one that it names first. Nothing is asked or tried."""
    named = environment.get("PERDURE_MODEL", "").strip()
    found = [model for variable, model in _BY_VARIABLE.items() if environment.get(variable)]
    return tuple(dict.fromkeys([*([named] if _MODEL.fullmatch(named) else []), *found]))


def past_choices(entries: Iterable[BuilderMemoryEntry]) -> tuple[PastChoice, ...]:
    """Return what was chosen before, the newest first; of each bot the newest choice counts.

    A choice whose tone or model is not known is left out: it cannot support a suggestion.
    """
    newest: dict[str, PastChoice] = {}
    for entry in entries:
        if entry.chosen_tone is None or entry.chosen_model is None:
            continue
        choice = PastChoice(
            category=entry.purpose_category,
            tone=entry.chosen_tone,
            model=entry.chosen_model,
            skills=entry.chosen_skills,
        )
        newest.setdefault(entry.bot_slug or entry.id, choice)
    return tuple(islice(newest.values(), _OF_EACH))
