"""Goals that a model decides: how they are started, and the minds of their runs."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.app.goals.arguments import validate
from perdure.app.goals.new_goal import NewGoal
from perdure.app.models.load_skill import LoadSkillTool
from perdure.bots.skills import Skill
from perdure.kernel.calls.toolbox import StaticTools
from perdure.kernel.events import GoalBegun, Limits, Message, MindSpec
from perdure.kernel.tool import Tool
from perdure.minds.factory import Made, MindRequest
from perdure.minds.model.mind import ModelHost, ModelMind
from perdure.minds.model.ports import ModelClient
from perdure.minds.model.prompt import Profile
from perdure.minds.model.providers.choice import choose_model
from perdure.model_settings import ModelDefaults

if TYPE_CHECKING:
    from perdure.app.builder.bots import Bots

ITERATIONS = 50
"""How often a model may decide after each message of a person, unless a limit says otherwise."""


class ModelGoals:
    """Starts goals for models, and makes the minds of their runs."""

    def __init__(self, bots: "Callable[[], Bots]", client: Callable[[], ModelClient], defaults: ModelDefaults) -> None:
        self._bots = bots
        self._client = client
        self._defaults = defaults

    async def new(self, text: str, *, bot: str | None, model: str | None, chat: bool, limits: Limits) -> NewGoal:
        """Return a new goal for a model, in the current folder; the model is chosen once.

        Raises: NotFound when there is no such bot; Invalid; NoModel when none is configured.
        """
        validate.message(text)
        found = None if bot is None else await self._bots().whole(bot)
        of_bot = None if found is None else found.bot.model_settings.model
        chosen = choose_model(self._defaults, given=model, of_bot=of_bot)
        options = {"fallbacks": [*self._defaults.fallbacks]} if self._defaults.fallbacks else None
        spec = MindSpec("model", model=chosen.text, chat=chat or None, options=options)
        if limits.iterations is None:
            limits = Limits(ITERATIONS, limits.tokens, limits.usd, limits.seconds)
        return NewGoal(
            text[:80] if chat else text,
            spec,
            Path.cwd(),
            limits,
            bot,
            said=(Message(text),) if chat else (),
            bot_version=None if found is None else found.version.number,
        )

    def make(self, request: MindRequest) -> Made:
        """Make the mind of one run; see MindFactory. The bot is read when the run begins."""
        begun = request.begun
        host = ModelHost(self._client(), partial(self._profile, begun), model=request.model)
        mind = ModelMind(host, request.answers)
        own: list[Tool] = [mind.read_result]
        if begun.bot is not None:
            own.append(LoadSkillTool(self._skills_of(begun.bot)))
        return Made(mind, [StaticTools("model", own)])

    async def _profile(self, begun: GoalBegun) -> Profile:
        if begun.bot is None:
            return Profile()
        bot = await self._bots().get(begun.bot)
        settings = bot.model_settings
        return Profile(
            bot.prompt(with_instructions=False),
            {"temperature": settings.temperature, "max_tokens": settings.max_tokens},
        )

    def _skills_of(self, slug: str) -> Callable[[], Awaitable[Sequence[Skill]]]:
        async def skills() -> Sequence[Skill]:
            return (await self._bots().get(slug)).skills

        return skills
