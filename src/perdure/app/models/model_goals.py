"""Goals that a model decides: how they are started, and the minds of their runs."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.app.goals.arguments import validate
from perdure.app.goals.new_goal import NewGoal
from perdure.app.models.bot_memory import BotMemory
from perdure.app.models.delegate import DelegateTool
from perdure.app.models.load_skill import LoadSkillTool
from perdure.bots.skills import Skill
from perdure.errors import Invalid
from perdure.kernel.calls.toolbox import StaticTools
from perdure.kernel.events import GoalBegun, Limits, Message, MindSpec
from perdure.kernel.tool import Tool
from perdure.minds.factory import MindRequest, MindWithTools
from perdure.minds.model.mind import ModelHost, ModelMind
from perdure.minds.model.ports import ModelClient
from perdure.minds.model.prompt import Profile
from perdure.minds.model.providers.choice import NoModel, choose_model
from perdure.minds.model.providers.names import BUILT_IN, ModelName
from perdure.model_settings import ModelDefaults
from perdure.settings import Settings

if TYPE_CHECKING:
    from perdure.app.builder.bots import BotDetails, Bots
    from perdure.app.memory.memory import HomeMemory
    from perdure.bots.bot import Bot

ITERATIONS = 50
"""Default limit of the decisions of a model after each message of a person."""
_PAGE = 200
_COMMAND = ". To run a command: perdure run -- echo hello"


class ModelGoals:
    """Starts goals for models, and makes the minds of their runs."""

    def __init__(
        self,
        bots: "Callable[[], Bots]",
        client: Callable[[], ModelClient],
        settings: Settings,
        memory: "Callable[[], HomeMemory]",
    ) -> None:
        self._bots = bots
        self._client = client
        self._defaults = settings.models
        self._settings = settings
        self._memory = memory

    async def new(self, text: str, *, bot: str | None, model: str | None, chat: bool, limits: Limits) -> NewGoal:
        """Return a new goal for a model, in the current folder; the model is chosen once.

        Raises: NotFound when there is no such bot; Invalid; NoModel when none is configured.
        """
        validate.require_message(text)
        details = None if bot is None else await self._bots().details(bot)
        try:
            chosen = self._choose(details, model)
        except NoModel as error:
            raise error if chat else NoModel(_COMMAND) from error
        options = {"fallbacks": [*self._defaults.fallbacks]} if self._defaults.fallbacks else None
        spec = MindSpec("model", model=chosen.text, chat=chat or None, options=options)
        if limits.iterations is None:
            limits = Limits(ITERATIONS, limits.tokens, limits.usd, limits.seconds)
        title = text[:80] if chat else text
        bot_version = None if details is None else details.version.number
        return NewGoal(
            title,
            spec,
            Path.cwd(),
            limits,
            bot,
            messages=(Message(text),) if chat else (),
            bot_version=bot_version,
        )

    async def model_of(self, bot: str | None, model: str | None = None) -> str:
        """Return the model of a new goal of a bot.

        Raises: NotFound when there is no such bot; Invalid; NoModel when none is configured.
        """
        details = None if bot is None else await self._bots().details(bot)
        return self._choose(details, model).text

    def _choose(self, details: "BotDetails | None", model: str | None) -> ModelName:
        of_bot = None if details is None else details.bot.model_settings.model
        return choose_model(self._defaults, given=model, of_bot=of_bot)

    async def require_bot(self, slug: str) -> None:
        """Raises: NotFound when there is no such bot."""
        await self._bots().get(slug)

    async def slugs(self) -> list[str]:
        """Return the slugs of all bots."""
        found: list[str] = []
        while page := await self._bots().list(limit=_PAGE, before=found[-1] if found else None):
            found += [view.summary.slug for view in page]
        return found

    def named(self, model: str) -> str:
        """Return the whole name of a model that a goal is given.

        Raises: Invalid when it is not the name of one; NoModel when it is the built-in one.
        """
        return choose_model(ModelDefaults(), given=model).text

    def require_model(self, begun: GoalBegun, name: str) -> str:
        """Return the whole name of the model that a goal is given from now on.

        Raises: Invalid when it is not one that goals can ask, or the goal is not for a model.
        """
        if begun.mind.kind != "model":
            raise Invalid(f"This goal is a {begun.mind.kind}: only a goal for a model can be given another model.")
        if name == BUILT_IN:
            raise Invalid(f"{BUILT_IN!r} is not a model that goals can ask. `perdure model list` shows some that are.")
        return self.named(name)

    def make(self, request: MindRequest) -> MindWithTools:
        """Make the mind of one run; see MindFactory. The bot is read when the run begins."""
        begun = request.begun
        memory = BotMemory(self._memory(), begun, partial(self._bot, begun), self._most_related)
        profile = partial(self._profile, begun, memory)
        host = ModelHost(self._client(), profile, memory.related, request.model, request.compacts)
        mind = ModelMind(host, request.answers)
        own: list[Tool] = [mind.read_result, DelegateTool()]
        if begun.bot is not None:
            own.append(LoadSkillTool(self._skills_of(begun.bot)))
        return MindWithTools(mind, [StaticTools("model", own), StaticTools("memory", memory.tools())])

    async def _profile(self, begun: GoalBegun, memory: BotMemory) -> Profile:
        bot, pins = await self._bot(begun), await memory.pins()
        if bot is None:
            return Profile(notes=pins)
        settings = bot.model_settings
        return Profile(
            bot.prompt(with_instructions=False),
            {"temperature": settings.temperature, "max_tokens": settings.max_tokens},
            pins,
        )

    async def _bot(self, begun: GoalBegun) -> "Bot | None":
        """Return the bot of a goal, as it is now; None for the built-in one."""
        return None if begun.bot is None else await self._bots().get(begun.bot)

    def _most_related(self) -> int:
        return self._settings.memory.max_matches

    def _skills_of(self, slug: str) -> Callable[[], Awaitable[Sequence[Skill]]]:
        async def skills() -> Sequence[Skill]:
            return (await self._bots().get(slug)).skills

        return skills
