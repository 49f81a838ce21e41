"""Bots from elsewhere: look at them, their files and their versions, and remove them."""

from collections.abc import AsyncIterator
from typing import Any, cast

from perdure.client.connection import Connection
from perdure.client.sending import plain_step, steps
from perdure.client.shapes import BotFile, BotSummary


class Bots:
    """What can be done with bots."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def each(self, *, limit: int = 50) -> AsyncIterator[BotSummary]:
        """Give all bots, by slug, `limit` of them with a request."""
        async for bot in self._connection.each("/bots", limit=limit):
            yield cast("BotSummary", bot)

    async def get(self, slug: str) -> dict[str, Any]:
        """Return a bot as its files say it is now, with its `version`, `files`, `edits` and `prompt`.

        Raises: NotFound; Invalid, naming the file, when one cannot be read.
        """
        found: dict[str, Any] = await self._connection.data("GET", _bot(slug))
        return found

    async def file(self, slug: str, name: str) -> BotFile:
        """Return one file of a bot, as it is on disk now.

        Raises: NotFound
        """
        return cast("BotFile", await self._connection.data("GET", f"{_bot(slug)}/files/{steps(name)}"))

    async def versions(self, slug: str, *, limit: int = 50) -> list[dict[str, Any]]:
        """Return all versions of a bot, the newest first, `limit` of them with a request.

        Raises: NotFound
        """
        return [each async for each in self._connection.each(f"{_bot(slug)}/versions", limit=limit)]

    async def delete(self, slug: str, *, version: int | None = None, etag: str | None = None) -> None:
        """Remove a bot with its files and all its versions.

        With an `etag`, which `get` gives, only if it is still the same; with a version, only if that is the newest and
        nobody has edited its files.

        Raises: NotFound; Conflict when it is not what was meant.
        """
        seen = version if etag is None else etag
        headers = {"If-Match": None if seen is None else f'"{seen}"'}
        await self._connection.data("DELETE", _bot(slug), headers=headers)

    async def skills(self) -> list[dict[str, Any]]:
        """Return the skills that a bot can have."""
        return [each async for each in self._connection.each("/skills", limit=500)]

    async def skill(self, name: str) -> dict[str, Any]:
        """Return a skill with what it tells a bot.

        Raises: NotFound
        """
        found: dict[str, Any] = await self._connection.data("GET", f"/skills/{plain_step(name)}")
        return found


def _bot(slug: str) -> str:
    return f"/bots/{plain_step(slug)}"
