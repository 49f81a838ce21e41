"""Calls for bots, their files and versions, and skills."""

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from perdure.client.connection import Connection
from perdure.client.sending import plain_step, steps
from perdure.errors import Unavailable

if TYPE_CHECKING:
    from perdure.app.wire.resources.bots import (
        Bot,
        BotExplanation,
        BotFile,
        BotProblems,
        BotSummary,
        BotVersion,
        Skill,
        SkillSummary,
    )
    from perdure.app.wire.resources.builder import AssemblyResult


class Bots:
    """The bots of a server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def each(self, *, limit: int = 50) -> "AsyncIterator[BotSummary]":
        """Iterate over all bots, by slug; a request fetches `limit` of them."""
        async for bot in self._connection.each("/bots", limit=limit):
            yield cast("BotSummary", bot)

    async def get(self, slug: str) -> "Bot":
        """Return a bot with its current `version`, `files`, `edits` and `prompt`.

        Raises: NotFound; Invalid, naming the file, when one cannot be read.
        """
        return cast("Bot", await self._connection.data("GET", _bot(slug)))

    async def file(self, slug: str, name: str) -> "BotFile":
        """Return the current text of a file of a bot.

        Raises: NotFound
        """
        return cast("BotFile", await self._connection.data("GET", f"{_bot(slug)}/files/{steps(name)}"))

    async def versions(self, slug: str, *, limit: int = 50) -> "list[BotVersion]":
        """Return all versions of a bot, newest first; a request fetches `limit` of them.

        Raises: NotFound
        """
        found = self._connection.each(f"{_bot(slug)}/versions", limit=limit)
        return [cast("BotVersion", each) async for each in found]

    async def explain(self, slug: str, place: str) -> "BotExplanation":
        """Return the source of a line; a place is `SOUL.md:12`.

        Raises: NotFound; Invalid when there is no such line.
        """
        path = f"{_bot(slug)}/explanation"
        return cast("BotExplanation", await self._connection.data("GET", path, query={"place": place}))

    async def problems(self, slug: str) -> "BotProblems":
        """Return the problems of a bot's files.

        Raises: NotFound
        """
        return cast("BotProblems", await self._connection.data("GET", f"{_bot(slug)}/problems"))

    async def rollback(self, slug: str, version: int, *, key: str | None = None) -> "AssemblyResult":
        """Restore an earlier version of a bot as a new version; with a key, once.

        Raises: NotFound; Conflict when the bot is changed at the same time, or the key was used for another call.
        """
        return await self._made(f"{_bot(slug)}/rollback", {"version": version}, key)

    async def export(self, slug: str) -> bytes:
        """Return an archive of the current files of a bot.

        Raises: NotFound; Invalid, naming the file, when one cannot be read.
        """
        found = await self._connection.data("GET", f"{_bot(slug)}/archive")
        try:
            return b64decode(found["archive"], validate=True)
        except (KeyError, TypeError, ValueError) as error:
            raise Unavailable(f"{self._connection.url} sent an invalid archive of {slug}: {error}.") from error

    async def load_archive(self, archive: bytes, *, key: str | None = None) -> "AssemblyResult":
        """Create a new bot from an archive of `export`; with a key, once.

        Raises: Invalid when it has no bot, is incomplete or too large; Conflict when the key was used for another
        call.
        """
        return await self._made("/bots", {"archive": b64encode(archive).decode()}, key)

    async def delete(
        self, slug: str, *, version: int | None = None, etag: str | None = None, with_choices: bool = False
    ) -> None:
        """Delete a bot with its files and versions; with `with_choices`, also its remembered choices.

        With an `etag` of `get`, only if the bot is unchanged; with a version, only if that is the newest and its files
        were not edited.

        Raises: NotFound; Conflict when the bot has changed.
        """
        seen = version if etag is None else etag
        headers = {"If-Match": None if seen is None else f'"{seen}"'}
        query = {"with_choices": True if with_choices else None}
        await self._connection.data("DELETE", _bot(slug), query=query, headers=headers)

    async def skills(self) -> "list[SkillSummary]":
        """Return the skills that a bot can have."""
        return [cast("SkillSummary", each) async for each in self._connection.each("/skills", limit=500)]

    async def skill(self, name: str) -> "Skill":
        """Return a skill with its instructions.

        Raises: NotFound
        """
        return cast("Skill", await self._connection.data("GET", f"/skills/{plain_step(name)}"))

    async def _made(self, path: str, body: Mapping[str, Any], key: str | None) -> "AssemblyResult":
        found = await self._connection.data("POST", path, body, headers={"Idempotency-Key": key})
        return cast("AssemblyResult", found["result"])


def _bot(slug: str) -> str:
    return f"/bots/{plain_step(slug)}"
