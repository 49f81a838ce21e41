"""Bots from elsewhere: look at them, their files and their versions, roll back, export, import and remove them."""

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

    async def explain(self, slug: str, place: str) -> "BotExplanation":
        """Return where a line came from; a place is `SOUL.md:12`.

        Raises: NotFound; Invalid when there is no such line.
        """
        path = f"{_bot(slug)}/explanation"
        return cast("BotExplanation", await self._connection.data("GET", path, query={"place": place}))

    async def problems(self, slug: str) -> "BotProblems":
        """Return what is wrong with the files of a bot.

        Raises: NotFound
        """
        return cast("BotProblems", await self._connection.data("GET", f"{_bot(slug)}/problems"))

    async def rollback(self, slug: str, version: int, *, key: str | None = None) -> "AssemblyResult":
        """Make a bot what it was in an earlier version, as a new version; with a key, once.

        Raises: NotFound; Conflict when the bot is changed at the same time, or the key was used for another call.
        """
        return await self._made(f"{_bot(slug)}/rollback", {"version": version}, key)

    async def export(self, slug: str) -> bytes:
        """Return a bot, as it is on disk, as one file.

        Raises: NotFound; Invalid, naming the file, when one cannot be read.
        """
        found = await self._connection.data("GET", f"{_bot(slug)}/archive")
        try:
            return b64decode(found["archive"], validate=True)
        except (KeyError, TypeError, ValueError) as error:
            raise Unavailable(f"{self._connection.url} sent no archive of {slug}: {error}.") from error

    async def load_archive(self, archive: bytes, *, key: str | None = None) -> "AssemblyResult":
        """Make a new bot of what `export` gave; with a key, once.

        Raises: Invalid when it holds no bot, is not whole or is too large; Conflict when the key was used for another
        call.
        """
        return await self._made("/bots", {"archive": b64encode(archive).decode()}, key)

    async def delete(
        self, slug: str, *, version: int | None = None, etag: str | None = None, with_choices: bool = False
    ) -> None:
        """Remove a bot with its files and all its versions; with choices, also what was chosen for it.

        With an `etag`, which `get` gives, only if it is still the same; with a version, only if that is the newest and
        its files were not edited.

        Raises: NotFound; Conflict when it is not what was meant.
        """
        seen = version if etag is None else etag
        headers = {"If-Match": None if seen is None else f'"{seen}"'}
        query = {"with_choices": True if with_choices else None}
        await self._connection.data("DELETE", _bot(slug), query=query, headers=headers)

    async def skills(self) -> "list[SkillSummary]":
        """Return the skills that a bot can have."""
        return [cast("SkillSummary", each) async for each in self._connection.each("/skills", limit=500)]

    async def skill(self, name: str) -> "Skill":
        """Return a skill with what it tells a bot.

        Raises: NotFound
        """
        return cast("Skill", await self._connection.data("GET", f"/skills/{plain_step(name)}"))

    async def _made(self, path: str, body: Mapping[str, Any], key: str | None) -> "AssemblyResult":
        found = await self._connection.data("POST", path, body, headers={"Idempotency-Key": key})
        return cast("AssemblyResult", found["result"])


def _bot(slug: str) -> str:
    return f"/bots/{plain_step(slug)}"
