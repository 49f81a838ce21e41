"""The context of an interview: available models, skills, and past choices."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping

from perdure.app.builder.skills import Skills
from perdure.errors import Damaged, NotFound
from perdure.forge.assembly.changes import config_of
from perdure.forge.categories import guess_purpose
from perdure.forge.ports import BotStore, BuilderMemoryEntry, BuilderMemoryStore
from perdure.forge.state import BuilderState, InterviewContext, PastChoice
from perdure.forge.vocabulary import BotPurpose
from perdure.minds.model.providers.names import VENDORS

_PAGE = 100
"""Page size when past choices of a category are read."""
_MOST_CHOICES = 3
"""Maximum number of past choices that an interview knows."""
_SINGLE = frozenset({BotPurpose.CODING, BotPurpose.RESEARCH, BotPurpose.CUSTOMER_SERVICE})
"""Purposes that are the only one of their category: the category identifies them."""
_MODEL = re.compile(r"[a-z][a-z0-9-]{0,40}:\S{1,150}")
_BY_VARIABLE = {
    "OPENAI_API_KEY": VENDORS["openai"].suggested,
    "ANTHROPIC_API_KEY": VENDORS["anthropic"].suggested,
    "GOOGLE_API_KEY": VENDORS["google"].suggested,
    "OLLAMA_HOST": VENDORS["ollama"].suggested,
}


def detected_models(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the models that environment variables name or have a key for; `PERDURE_MODEL` comes first.

    No provider is called.
    """
    configured = environment.get("PERDURE_MODEL", "").strip()
    detected = [model for variable, model in _BY_VARIABLE.items() if environment.get(variable)]
    return tuple(dict.fromkeys([*([configured] if _MODEL.fullmatch(configured) else []), *detected]))


async def past_choices(
    choices: BuilderMemoryStore, bots: BotStore, category: str, purpose: BotPurpose
) -> tuple[PastChoice, ...]:
    """Return the newest choice for each of the last bots with a purpose, newest first.

    Choices without a tone or a model are skipped, because they cannot support a suggestion. A custom purpose has no
    past choices: two custom purposes need not have anything in common.
    """
    if purpose is BotPurpose.OTHER:
        return ()
    newest: dict[str, PastChoice] = {}
    async for entry, tone, model in _newest_of_each_bot(choices, category):
        if len(newest) == _MOST_CHOICES:
            break
        if purpose not in _SINGLE and await _purpose_of(entry, bots) != purpose:
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
    """Yield the newest complete choice of each bot of a category, with its tone and its model."""
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
    """Return the purpose of the bot of a choice; for a deleted bot, the purpose that its description suggests."""
    try:
        return config_of(await bots.version(entry.bot_slug or "")).purpose
    except (NotFound, Damaged):
        guess = guess_purpose(entry.initial_description)
        return guess.purpose if guess.is_clear else None


class InterviewContextReader:
    """Reads the context of interviews from a home: its models, its skills and its past choices."""

    def __init__(
        self,
        choices: BuilderMemoryStore,
        bots: BotStore,
        skills: Skills,
        environment: Mapping[str, str],
        default_model: str | None = None,
    ) -> None:
        self._choices = choices
        self._bots = bots
        self._skills = skills
        self._environment = environment
        self._default_model = default_model

    async def read(self) -> InterviewContext:
        """Return the context of a new interview."""
        return InterviewContext(
            models=detected_models(self._environment),
            default_model=self._default_model,
            skills=await self.known_skills(),
        )

    async def known_skills(self) -> tuple[tuple[str, str], ...]:
        """Return the names and descriptions of all skills."""
        return tuple((each.skill.name, each.skill.description) for each in await self._skills.list())

    async def with_new_skills(self, state: BuilderState) -> BuilderState:
        """Add skills that were created since the start of a session to its context; its other skills do not change."""
        if self._skills.folder.is_empty():
            return state
        known = state.context.skills
        new = await asyncio.to_thread(self._skills.folder.skills, dict(known))
        if not new:
            return state
        all_skills = (*known, *((skill.name, skill.description) for skill in new))
        context = state.context.model_copy(update={"skills": all_skills})
        return state.model_copy(update={"context": context})

    async def past(self, state: BuilderState) -> tuple[PastChoice, ...]:
        """Return past choices for bots of the purpose of a state, unless its context has them."""
        if any(each.purpose == state.purpose for each in state.context.past):
            return ()
        return await past_choices(self._choices, self._bots, state.purpose_category, state.purpose)
