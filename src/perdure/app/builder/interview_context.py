"""What an interview knows of the world when it begins: models, skills, and what was chosen before."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping

from perdure.app.builder.skills import Skills
from perdure.errors import Damaged, NotFound
from perdure.forge.assembly.changes import config_of
from perdure.forge.categories import purpose_of
from perdure.forge.ports import BotStore, BuilderMemoryEntry, BuilderMemoryStore
from perdure.forge.state import BuilderState, PastChoice, Surroundings
from perdure.forge.vocabulary import BotPurpose
from perdure.minds.model.providers.names import VENDORS

_PAGE = 100
"""How many past choices of a category are read at a time."""
_OF_EACH = 3
_ALONE = frozenset({BotPurpose.CODING, BotPurpose.RESEARCH, BotPurpose.CUSTOMER_SERVICE})
"""Purposes that share their category with no other."""
_MODEL = re.compile(r"[a-z][a-z0-9-]{0,40}:\S{1,150}")
_BY_VARIABLE = {
    "OPENAI_API_KEY": VENDORS["openai"].suggested,
    "ANTHROPIC_API_KEY": VENDORS["anthropic"].suggested,
    "GOOGLE_API_KEY": VENDORS["google"].suggested,
    "OLLAMA_HOST": VENDORS["ollama"].suggested,
}


def detected_models(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the models that the environment speaks of, the one that it names first. Nothing is asked or tried."""
    named = environment.get("PERDURE_MODEL", "").strip()
    found = [model for variable, model in _BY_VARIABLE.items() if environment.get(variable)]
    return tuple(dict.fromkeys([*([named] if _MODEL.fullmatch(named) else []), *found]))


async def past_choices(
    choices: BuilderMemoryStore, bots: BotStore, category: str, purpose: BotPurpose
) -> tuple[PastChoice, ...]:
    """Return what was chosen for bots of a purpose before, the newest first; of each bot the newest choice counts.

    A choice whose tone or model is not known is left out: it cannot support a suggestion. A purpose of the person's
    own borrows nothing.
    """
    if purpose is BotPurpose.OTHER:
        return ()
    newest: dict[str, PastChoice] = {}
    async for entry, tone, model in _newest_of_each_bot(choices, category):
        if len(newest) == _OF_EACH:
            break
        if purpose not in _ALONE and await _purpose_of(entry, bots) != purpose:
            continue
        newest[entry.bot_slug or entry.id] = PastChoice(
            category=entry.purpose_category,
            tone=tone,
            model=model,
            skills=entry.chosen_skills,
            purpose=purpose,
        )
    return tuple(newest.values())


async def _newest_of_each_bot(
    choices: BuilderMemoryStore, category: str
) -> AsyncIterator[tuple[BuilderMemoryEntry, str, str]]:
    """Return the newest choice with a tone and a model of each bot of a category, however many choices there are."""
    seen: set[str] = set()
    page = await choices.recall_by_category(category, _PAGE)
    while page:
        for entry in page:
            key = entry.bot_slug or entry.id
            if entry.chosen_tone is not None and entry.chosen_model is not None and key not in seen:
                seen.add(key)
                yield entry, entry.chosen_tone, entry.chosen_model
        page = await choices.recall_by_category(category, _PAGE, before=page[-1].place)


async def _purpose_of(entry: BuilderMemoryEntry, bots: BotStore) -> BotPurpose | None:
    """Return what the bot of a choice is for; of a bot that is gone, what its description says."""
    try:
        return config_of(await bots.version(entry.bot_slug or "")).purpose
    except (NotFound, Damaged):
        found = purpose_of(entry.initial_description)
        return found.purpose if found.is_clear else None


class InterviewContext:
    """Gathers what the interviews of a home know of it."""

    def __init__(
        self, choices: BuilderMemoryStore, bots: BotStore, skills: Skills, environment: Mapping[str, str]
    ) -> None:
        self._choices = choices
        self._bots = bots
        self._skills = skills
        self._environment = environment

    async def surroundings(self) -> Surroundings:
        """Return what a new interview knows."""
        return Surroundings(models=detected_models(self._environment), skills=await self.known_skills())

    async def known_skills(self) -> tuple[tuple[str, str], ...]:
        """Return the names and descriptions of all skills."""
        return tuple((each.skill.name, each.skill.description) for each in await self._skills.list())

    async def with_new_skills(self, state: BuilderState) -> BuilderState:
        """Let a session know of the skills that were made since it began; what it knew of stays as it was."""
        if self._skills.shelf.is_empty():
            return state
        known = state.surroundings.skills
        new = await asyncio.to_thread(self._skills.shelf.skills, dict(known))
        if not new:
            return state
        all_of_them = (*known, *((skill.name, skill.description) for skill in new))
        surroundings = state.surroundings.model_copy(update={"skills": all_of_them})
        return state.model_copy(update={"surroundings": surroundings})

    async def past(self, state: BuilderState) -> tuple[PastChoice, ...]:
        """Return what was chosen for bots of the purpose of a state, unless the state knows it."""
        if any(each.purpose == state.purpose for each in state.surroundings.past):
            return ()
        return await past_choices(self._choices, self._bots, state.purpose_category, state.purpose)
