"""The operations on existing bots: read, explain, roll back, export, import and delete."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.app.builder.list_views import BotView
from perdure.app.home.system import SystemClock, SystemIds
from perdure.app.idempotency import Idempotency
from perdure.bots.archive import pack_bot, read_archive, unpack_bot
from perdure.bots.bot import Bot, parse_bot
from perdure.errors import Damaged, Invalid
from perdure.forge.assembly.assembly import AssemblyResult, BotAssembler
from perdure.forge.assembly.changes import config_of
from perdure.forge.assembly.library import Explanation
from perdure.forge.ports import BotStore, BotVersion, VersionSummary
from perdure.forge.vocabulary import BotPurpose
from perdure.store.builder.bots import SqlBotStore
from perdure.store.client import DatabaseClient
from perdure.store.idempotency import SqlIdempotencyKeys
from perdure.text.moments import iso

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
class BotDetails:
    """A bot with its version, purpose, files and edits."""

    version: BotVersion
    bot_purpose: BotPurpose
    """The purpose in the config of the interview."""
    bot: Bot
    files: tuple[str, ...]
    edits: Mapping[str, str]
    etag: str
    """Identifies this version with these files; see `Bots.delete`."""
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
            "etag": self.etag,
            "prompt": bot.prompt(),
            "folder": str(self.folder),
            "updated_at": iso(self.version.created_at_us),
        }


@dataclass(frozen=True)
class ExplanationView:
    """The origin of a line of a bot, as every surface shows it."""

    explanation: Explanation

    def wire(self) -> "wire.BotExplanation":
        """Return the one JSON form of an explanation."""
        explanation = self.explanation
        source: wire.LineSource | None = (
            None
            if explanation.source is None
            else {"kind": explanation.source.kind, "exchange": explanation.source.exchange}
        )
        return {
            "path": explanation.path,
            "line": explanation.line,
            "text": explanation.text,
            "source": source,
            "question": explanation.question,
            "answer": explanation.answer,
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
        """Return bots by slug; `before` is the slug of the last bot of the previous page."""
        return [BotView(each) for each in await self._store.list_bots(limit=limit, before=before)]

    async def get(self, slug: str) -> Bot:
        """Return a bot as its files define it now.

        Raises: NotFound; Invalid, naming the file, when one cannot be read.
        """
        return await self._assembler.open_bot(slug)

    async def details(self, slug: str) -> BotDetails:
        """Return a bot with its version, purpose, files and edits.

        Raises: NotFound; Invalid, naming the file, when one cannot be read.
        """
        on_disk = await self._assembler.on_disk(slug)
        bot, edits = parse_bot(slug, on_disk.texts), await asyncio.to_thread(on_disk.edits)
        purpose, folder = config_of(on_disk.version).purpose, self._assembler.folder(slug)
        return BotDetails(on_disk.version, purpose, bot, tuple(on_disk.texts), edits, on_disk.etag, folder)

    async def file(self, slug: str, name: str) -> str:
        """Return the current text of one file of a bot.

        Raises: NotFound when the bot has no such file; Invalid when the name is invalid, or the file cannot be read.
        """
        return await self._assembler.text(slug, name)

    async def versions(
        self, slug: str, *, limit: int | None = None, before: int | None = None
    ) -> Sequence[VersionView]:
        """Return versions of a bot, newest first; `before` is the number of the last version of the previous page.

        Raises: NotFound
        """
        return [VersionView(each) for each in await self._store.versions(slug, limit=limit, before=before)]

    async def edits(self, slug: str) -> Mapping[str, str]:
        """Return the manual edits since the last version, as a unified diff for each file.

        Raises: NotFound; Invalid, naming the file.
        """
        return await self._assembler.edits(slug)

    async def explain(self, slug: str, place: str) -> ExplanationView:
        """Return the origin of a line; a place is, for example, `SOUL.md:12`.

        Raises: NotFound; Invalid when there is no such line.
        """
        return ExplanationView(await self._assembler.explain(slug, place))

    async def rollback(self, slug: str, number: int, *, once: "IdempotentCall | None" = None) -> AssemblyResult:
        """Restore the files of an earlier version, as a new version; edited files are kept as NAME.old.

        Repeated calls with the same key create one version.

        Raises: NotFound; Conflict when the bot is changed at the same time; KeyTaken.
        """
        if once is None:
            return await self._assembler.rollback(slug, number)
        await self._store.version(slug, number)  # a rejected call leaves its key free
        return await self._settle(once, lambda call_id: self._assembler.rollback(slug, number, call_id=call_id))

    async def export(self, slug: str) -> bytes:
        """Return a bot as an archive.

        Raises: NotFound; Invalid, naming the file.
        """
        return await self._assembler.export_bot(slug)

    async def load(self, path: Path) -> AssemblyResult:
        """Create a bot from a file with an archive of `export`. Nothing in it is executed.

        Raises: NotFound; Invalid when the file is not the archive of a bot.
        """
        return await self._assembler.import_bot(await asyncio.to_thread(read_archive, path))

    async def load_archive(self, archive: bytes, *, once: "IdempotentCall | None" = None) -> AssemblyResult:
        """Create a bot from an archive of `export`, as `load` does; repeated calls with the same key create one bot.

        Raises: Invalid when it is not the archive of a bot, or is truncated; KeyTaken.
        """
        try:
            packed = await asyncio.to_thread(unpack_bot, archive, "The archive")
        except Damaged as error:  # the caller has sent it; no stored data is damaged
            raise Invalid(error.detail) from error
        if once is None:
            return await self._assembler.import_bot(packed)
        return await self._settle(once, lambda call_id: self._assembler.import_bot(packed, call_id=call_id))

    async def _settle(
        self, once: "IdempotentCall", change: Callable[[str], Awaitable[AssemblyResult]]
    ) -> AssemblyResult:
        """Create a version under an id that is stored with the key first, so that a repeated call finds it."""

        async def make_version(call_id: str) -> str:
            return (await change(call_id)).model_dump_json()

        answer, _ = await self._calls.settle(once, self._new_id(), make_version)
        return AssemblyResult.model_validate_json(answer)

    async def verify(self, slug: str) -> Sequence[str]:
        """Return the problems of the files of a bot.

        Raises: NotFound
        """
        return await self._assembler.verify(slug)

    async def delete(self, slug: str, seen: str | None = None, *, with_choices: bool = False) -> None:
        """Remove a bot with its files and all its versions; with `seen`, its `etag`, only if it is unchanged.

        `seen` may also be the number of a version, if its files were not edited. With choices, the stored choices of
        the bot are removed, too, and no longer lead to suggestions.

        Raises: NotFound; Conflict when the bot was changed.
        """
        await self._assembler.delete(slug, seen, with_choices=with_choices)


def packed_bot(path: Path) -> bytes:
    """Read and validate a file with an archive of `export`, and return the archive to send to a server.

    Raises: as `Bots.load`.
    """
    return pack_bot(read_archive(path))


def open_bots(database: DatabaseClient, bots_dir: Path) -> Bots:
    """Return the bots of a database and a folder."""
    store, new_id = SqlBotStore(database), SystemIds().event_id
    assembler = BotAssembler(bots_dir, store, now_us=SystemClock().now_us, new_id=new_id)
    return Bots(store, assembler, Idempotency(SqlIdempotencyKeys(database)), new_id=new_id)
