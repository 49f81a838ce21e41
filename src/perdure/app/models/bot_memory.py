"""The memory of a home for one goal of a bot: its tools, its pins, and the related records at its start."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from perdure.errors import PerdureError
from perdure.kernel.events import GoalBegun, Message
from perdure.kernel.fold import ASSISTANT
from perdure.kernel.tool import Tool
from perdure.memory.ingest.checkout import repository_root
from perdure.memory.ingest.git import Repository
from perdure.memory.tools.opening import opening_message
from perdure.memory.tools.pins import pinned_text
from perdure.memory.tools.recall import RecallTool
from perdure.memory.tools.remember import RememberTool
from perdure.memory.tools.scope import DEFAULT_SCOPES, RecallScope, Scope

if TYPE_CHECKING:
    from perdure.app.memory.memory import HomeMemory
    from perdure.bots.bot import Bot

log = logging.getLogger(__name__)


class BotMemory:
    """The memory for one run of a goal. What the bot may recall is read from its files when it is needed."""

    def __init__(
        self,
        memory: "HomeMemory",
        begun: GoalBegun,
        bot: "Callable[[], Awaitable[Bot | None]]",
        most_records: Callable[[], int],
    ) -> None:
        self._memory = memory
        self._begun = begun
        self._bot = bot
        self._most_records = most_records
        self._slug = begun.bot or ASSISTANT

    def tools(self) -> list[Tool]:
        """Return `recall` and `remember`."""
        return [RecallTool(self._memory, self._recall_scope), RememberTool(self._memory, self._recall_scope)]

    async def related(self, text: str) -> Sequence[Message]:
        """Return the message with the related records, if there are any; no error of the memory is raised."""
        try:
            scope, most = await self._recall_scope(), self._most_records()
        except PerdureError as error:
            log.warning("the goal begins without related records: %s", error)
            return ()
        return await opening_message(self._memory, scope, text, most)

    async def pins(self) -> str:
        """Return the section of the prompt about pinned records; empty when the memory cannot be read."""
        try:
            return pinned_text(await self._memory.pins(self._slug))
        except (PerdureError, OSError) as error:
            log.warning("the prompt is made without pinned records: %s", error)
            return ""

    async def _recall_scope(self) -> RecallScope:
        bot = await self._bot()
        scopes = DEFAULT_SCOPES if bot is None else cast("tuple[Scope, ...]", bot.recall)
        repo = await asyncio.to_thread(_repository_of, self._begun.workdir)
        return RecallScope(self._slug, scopes, repo)


def _repository_of(workdir: str | None) -> str | None:
    """Return the name of the repository of a folder, by its `origin`; None where there is none, or git is missing."""
    root = None if workdir is None else repository_root(Path(workdir))
    if root is None:
        return None
    try:
        return Repository(root).name()
    except (PerdureError, OSError):
        return None
