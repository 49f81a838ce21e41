"""Implements the ports for bots over the client."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from perdure.app.builder.bots import ExplanationView, packed_bot
from perdure.app.builder.names import require_slug
from perdure.app.builder.values import AssemblyResult, Explanation, Source
from perdure.client.bots import Bots
from perdure.interfaces.cli.remote.connection import first
from perdure.interfaces.cli.remote.received import Received, read_as

if TYPE_CHECKING:
    from perdure.app.wire.resources import bots as wire

_PAGE = 500


class ServerBots:
    """Implements `BotReader` and `BotWriter` over the client."""

    def __init__(self, bots: Bots) -> None:
        self._bots = bots

    async def list(self, *, limit: int = 50) -> "Sequence[Received[wire.BotSummary]]":
        """Return the bots by slug."""
        return [Received(bot) for bot in await first(limit, self._bots.each(limit=min(limit, _PAGE)))]

    async def details(self, slug: str) -> "Received[wire.Bot]":
        """See BotReader.whole."""
        return Received(await self._bots.get(require_slug(slug)))

    async def versions(self, slug: str) -> "Sequence[Received[wire.BotVersion]]":
        """See BotReader.versions."""
        return [Received(version) for version in await self._bots.versions(require_slug(slug), limit=_PAGE)]

    async def explain(self, slug: str, place: str) -> ExplanationView:
        """See BotReader.explain."""
        found = await self._bots.explain(require_slug(slug), place)
        given = found["source"]
        source = None if given is None else Source(given["kind"], given["exchange"])
        where = found["path"], found["line"], found["text"]
        return ExplanationView(Explanation(*where, source, found["question"], found["answer"]))

    async def verify(self, slug: str) -> Sequence[str]:
        """See BotReader.verify."""
        return (await self._bots.problems(require_slug(slug)))["problems"]

    async def export(self, slug: str) -> bytes:
        """See BotReader.export."""
        return await self._bots.export(require_slug(slug))

    async def rollback(self, slug: str, number: int) -> AssemblyResult:
        """See BotWriter.rollback; a repeated call with the same key makes one version."""
        return read_as(AssemblyResult, await self._bots.rollback(require_slug(slug), number, key=uuid4().hex))

    async def load(self, path: Path) -> AssemblyResult:
        """See BotWriter.load; the file is read and checked here, and its content is sent."""
        archive = await asyncio.to_thread(packed_bot, path)
        return read_as(AssemblyResult, await self._bots.load_archive(archive, key=uuid4().hex))

    async def delete(self, slug: str, *, with_choices: bool = False) -> None:
        """See BotWriter.delete."""
        await self._bots.delete(require_slug(slug), with_choices=with_choices)
