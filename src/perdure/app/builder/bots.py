"""What can be done with bots that are there: look at them, explain them, take changes back, take them along."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.app.builder.list_views import BotView
from perdure.app.home.system import SystemClock, SystemIds
from perdure.app.idempotency import Idempotency
from perdure.bots.archive import read_archive, unpack_bot
from perdure.bots.bot import Bot, parse_bot
from perdure.errors import Damaged, Invalid
from perdure.forge.assembly.assembly import AssemblyResult, BotAssembler
from perdure.forge.assembly.changes import config_of
from perdure.forge.assembly.library import Explanation
from perdure.forge.ports import BotStore, BotVersion, VersionSummary
from perdure.forge.vocabulary import BotPurpose
from perdure.moments import iso
from perdure.store.builder.bots import SqlBotStore
from perdure.store.client import DatabaseClient
from perdure.store.idempotency import SqlIdempotencyKeys

if TYPE_CHECKING:
    from perdure.app.wire.resources import bots as wire
    from perdure.kernel.ports import IdempotentCall


@dataclass(frozen=True)
class VersionView:
    """A version of a bot as every surface shows it."""

    summary: VersionSummary

    def wire(self) -> "wire.BotVersion":
        """Return the one JSON form of a version."""
        version = self.summary
        return {
            "number": version.number,
            "state": version.state,
            "origin": version.origin,
            "hand_edits": list(version.hand_edits),
            "sha256": dict(version.sha256),
            "created_at": iso(version.created_at_us),
        }


@dataclass(frozen=True)
class WholeBot:
    """A bot with all that there is to know about it now."""

    version: BotVersion
    bot_purpose: BotPurpose
    """What it was made for, as the interview knows it."""
    bot: Bot
    files: tuple[str, ...]
    edits: Mapping[str, str]
    mark: str
    """Tells this bot with these files from every other; see `Bots.delete`."""
    folder: Path

    def wire(self) -> "wire.Bot":
        """Return the one JSON form."""
        bot, settings = self.bot, self.bot.model_settings
        return {
            "id": self.version.bot_id,
            "slug": bot.slug,
            "name": bot.name,
            "category": bot.category,
            "bot_purpose": self.bot_purpose,
            "tone": bot.soul.tone,
            "traits": list(bot.soul.traits),
            "purpose": bot.soul.purpose,
            "boundaries": list(bot.soul.boundaries),
            "model_config": {
                "model": settings.model,
                "temperature": settings.temperature,
                "max_tokens": settings.max_tokens,
            },
            "skills": [skill.name for skill in bot.skills],
            "version": self.version.number,
            "files": list(self.files),
            "edits": dict(self.edits),
            "etag": self.mark,
            "prompt": bot.prompt(),
            "folder": str(self.folder),
            "updated_at": iso(self.version.created_at_us),
        }


@dataclass(frozen=True)
class ExplanationView:
    """Where a line of a bot came from, as every surface shows it."""

    found: Explanation

    def wire(self) -> "wire.BotExplanation":
        """Return the one JSON form of an explanation."""
        found = self.found
        source: wire.LineSource | None = (
            None if found.source is None else {"kind": found.source.kind, "exchange": found.source.exchange}
        )
        return {
            "path": found.path,
            "line": found.line,
            "text": found.text,
            "source": source,
            "question": found.question,
            "answer": found.answer,
        }


class Bots:
    """The bots of a home.

    async with Perdure.open() as p:
        bot = await p.bots.get("ada")
        print(bot.prompt(), bot.model_settings)
    """

    def __init__(
        self, store: BotStore, assembler: BotAssembler, calls: Idempotency, *, new_id: Callable[[], str]
    ) -> None:
        self._store = store
        self._assembler = assembler
        self._calls = calls
        self._new_id = new_id

    async def list(self, *, limit: int = 50, before: str | None = None) -> Sequence[BotView]:
        """Return bots by slug; `before` is the slug of the last one of the page before."""
        return [BotView(each) for each in await self._store.list_bots(limit=limit, before=before)]

    async def get(self, slug: str) -> Bot:
        """Return a bot as its files say it is now.

        Raises: NotFound; Invalid, naming the file, when one cannot be read.
        """
        return await self._assembler.open_bot(slug)

    async def whole(self, slug: str) -> WholeBot:
        """Return a bot with all that there is to know about it now.

        Raises: NotFound; Invalid, naming the file, when one cannot be read.
        """
        found = await self._assembler.on_disk(slug)
        bot, edits = parse_bot(slug, found.texts), await asyncio.to_thread(found.edits)
        purpose, folder = config_of(found.version).purpose, self._assembler.folder(slug)
        return WholeBot(found.version, purpose, bot, tuple(found.texts), edits, found.mark, folder)

    async def file(self, slug: str, name: str) -> str:
        """Return the text of one file of a bot, as it is on disk now.

        Raises: NotFound when the bot has no such file; Invalid when it is not the name of one, or cannot be read.
        """
        return await self._assembler.text(slug, name)

    async def versions(
        self, slug: str, *, limit: int | None = None, before: int | None = None
    ) -> Sequence[VersionView]:
        """Return versions of a bot, the newest first; `before` is the number of the last one of the page before.

        Raises: NotFound
        """
        return [VersionView(each) for each in await self._store.versions(slug, limit=limit, before=before)]

    async def edits(self, slug: str) -> Mapping[str, str]:
        """Return what was edited by hand since the last version, as a unified diff for each file.

        Raises: NotFound; Invalid, naming the file.
        """
        return await self._assembler.edits(slug)

    async def explain(self, slug: str, place: str) -> ExplanationView:
        """Tell where a line came from; a place is `SOUL.md:12`.

        Raises: NotFound; Invalid when there is no such line.
        """
        return ExplanationView(await self._assembler.explain(slug, place))

    async def rollback(self, slug: str, number: int, *, once: "IdempotentCall | None" = None) -> AssemblyResult:
        """Make the files what they were in an earlier version, as a new one; edited files are kept as NAME.old.

        A call with a key makes one version.

        Raises: NotFound; Conflict when the bot is changed at the same time; KeyTaken.
        """
        if once is None:
            return await self._assembler.rollback(slug, number)
        await self._store.version(slug, number)  # a rejected call leaves its key free
        return await self._settled(once, lambda call_id: self._assembler.rollback(slug, number, call_id=call_id))

    async def export(self, slug: str) -> bytes:
        """Return a bot as one file.

        Raises: NotFound; Invalid, naming the file.
        """
        return await self._assembler.export_bot(slug)

    async def load(self, path: Path) -> AssemblyResult:
        """Make a new bot of a file that `export` gave. Nothing in it is run.

        Raises: NotFound; Invalid when it holds no bot.
        """
        return await self._assembler.import_bot(await asyncio.to_thread(read_archive, path))

    async def load_archive(self, archive: bytes, *, once: "IdempotentCall | None" = None) -> AssemblyResult:
        """Make a new bot of what `export` gave, as `load` does; a call with a key makes one bot.

        Raises: Invalid when it holds no bot, or is not whole; KeyTaken.
        """
        try:
            packed = await asyncio.to_thread(unpack_bot, archive, "The archive")
        except Damaged as error:  # what a caller has sent, and nothing that is stored here
            raise Invalid(error.detail) from error
        if once is None:
            return await self._assembler.import_bot(packed)
        return await self._settled(once, lambda call_id: self._assembler.import_bot(packed, call_id=call_id))

    async def _settled(
        self, once: "IdempotentCall", change: Callable[[str], Awaitable[AssemblyResult]]
    ) -> AssemblyResult:
        """Make a version under an id that is chosen first and kept with the key, so that a repetition finds it."""

        async def answered(call_id: str) -> str:
            return (await change(call_id)).model_dump_json()

        answer, _ = await self._calls.settled(once, self._new_id(), answered)
        return AssemblyResult.model_validate_json(answer)

    async def verify(self, slug: str) -> Sequence[str]:
        """Return what is wrong with the files of a bot.

        Raises: NotFound
        """
        return await self._assembler.verify(slug)

    async def delete(self, slug: str, seen: str | None = None, *, with_choices: bool = False) -> None:
        """Remove a bot with its files and all its versions; when `seen` is its `mark`, only if it is still so.

        The number of a version works too, as long as its files were not edited. With choices, what was chosen for
        the bot is forgotten, too, and makes no suggestion any more.

        Raises: NotFound; Conflict when it is not what was seen.
        """
        await self._assembler.delete(slug, seen, with_choices=with_choices)


def open_bots(database: DatabaseClient, bots_dir: Path) -> Bots:
    """Wire the bots to the store of a database, and to their folder."""
    store, new_id = SqlBotStore(database), SystemIds().event_id
    assembler = BotAssembler(bots_dir, store, now_us=SystemClock().now_us, new_id=new_id)
    return Bots(store, assembler, Idempotency(SqlIdempotencyKeys(database)), new_id=new_id)
