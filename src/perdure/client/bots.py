"""Bots from elsewhere: look at them, their files and their versions, and remove them."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

from perdure.client.connection import Connection
from perdure.client.sending import plain_step, steps

if TYPE_CHECKING:
    from perdure.app.wire.resources.bots import Bot, BotFile, BotSummary, BotVersion, Skill, SkillSummary


class Bots:
    """What can be done with bots."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def each(self, *, limit: int = 50) -> "AsyncIterator[BotSummary]":
        """Give all bots, by slug, `limit` of them with a request."""
        async for bot in self._connection.each("/bots", limit=limit):
            yield cast("BotSummary", bot)

    async def get(self, slug: str) -> "Bot":
        """Return a bot as its files say it is now, with its `version`, `files`, `edits` and `prompt`.

        Raises: NotFound; Invalid, naming the file, when one cannot be read.
        """
        return cast("Bot", await self._connection.data("GET", _bot(slug)))

    async def file(self, slug: str, name: str) -> "BotFile":
        """Return one file of a bot, as it is on disk now.

        Raises: NotFound
        """
        return cast("BotFile", await self._connection.data("GET", f"{_bot(slug)}/files/{steps(name)}"))

    async def versions(self, slug: str, *, limit: int = 50) -> "list[BotVersion]":
        """Return all versions of a bot, the newest first, `limit` of them with a request.

        Raises: NotFound
        """
        found = self._connection.each(f"{_bot(slug)}/versions", limit=limit)
        return [cast("BotVersion", each) async for each in found]

    async def delete(self, slug: str, *, version: int | None = None, etag: str | None = None) -> None:
        """Remove a bot with its files and all its versions.

        With an `etag`, which `get` gives, only if it is still the same; with a version, only if that is the newest and
        nobody has edited its files.

        Raises: NotFound; Conflict when it is not what was meant.
        """
        seen = version if etag is None else etag
        headers = {"If-Match": None if seen is None else f'"{seen}"'}
        await self._connection.data("DELETE", _bot(slug), headers=headers)

    async def skills(self) -> "list[SkillSummary]":
        """Return the skills that a bot can have."""
        return [cast("SkillSummary", each) async for each in self._connection.each("/skills", limit=500)]

    async def skill(self, name: str) -> "Skill":
        """Return a skill with what it tells a bot.

        Raises: NotFound
        """
        return cast("Skill", await self._connection.data("GET", f"/skills/{plain_step(name)}"))


def _bot(slug: str) -> str:
    return f"/bots/{plain_step(slug)}"
